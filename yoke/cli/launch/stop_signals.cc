#include "yoke/cli/launch/stop_signals.h"

#include <signal.h>

#include <array>
#include <atomic>

#include "yoke/base/error.h"

namespace yoke::cli {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

// A handler is given nothing but the signal's number: what it writes to cannot be an argument.
std::atomic<int> signal_count{0};
std::atomic<bool> second_ends{false};
std::atomic<bool> in_use{false};
std::array<struct sigaction, kSignals.size()> previous{};

void count_signal(int number) {
  if (signal_count.fetch_add(1) == 0 || !second_ends.load()) return;
  ::signal(number, SIG_DFL);
  ::raise(number);
}

}  // namespace

StopSignals::StopSignals(Second second) {
  base::require(!in_use.exchange(true), "StopSignals: there is one already");
  signal_count = 0;
  second_ends = second == Second::kEnds;
  struct sigaction action {};
  action.sa_handler = count_signal;
  ::sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &previous[i]);
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &previous[i], nullptr);
  in_use = false;
}

int StopSignals::count() const {
  return signal_count.load();
}

}  // namespace yoke::cli
