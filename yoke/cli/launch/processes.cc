#include "yoke/cli/launch/processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>

#include "yoke/base/error.h"
#include "yoke/base/files.h"
#include "yoke/cli/command.h"
#include "yoke/cli/launch/line_splitter.h"
#include "yoke/comm/store/socket.h"

extern char** environ;

namespace yoke::cli {
namespace {

using base::Duration;
using comm::Descriptor;

constexpr int kNotStarted = 127;
/// How long after the first sign of trouble another end can still be what caused it.
constexpr Duration kSameMoment = std::chrono::seconds(2);
/// How often the processes are looked at when nothing comes from them.
constexpr Duration kTick = std::chrono::milliseconds(50);
/// A line that is longer is cut in the report of a failure (not in the log).
constexpr std::size_t kLongestLine = 4096;
/// Reports have a line each, of a kilobyte or two.
constexpr std::size_t kLongestReport = 1U << 20U;

base::Error start_error(std::string_view what) {
  return base::peer_error(fmt::format("cannot start the ranks: {}: {}", what, std::strerror(errno)));
}

/// Everything that is there to read; false at the end of the stream.
template <typename Take>
bool drain(const Descriptor& from, Take take) {
  char chunk[16384];
  for (;;) {
    const ssize_t got = ::read(from.get(), chunk, sizeof(chunk));
    if (got > 0) {
      take(std::string_view(chunk, static_cast<std::size_t>(got)));
    } else if (got == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
}

/// One rank's process. The destructor kills it, should it still run.
class RankProcess {
 public:
  RankProcess(int rank, base::AppendFile log) : rank_(rank), log_(std::move(log)) {}
  ~RankProcess() {
    if (!running()) return;
    ::kill(pid_, SIGKILL);
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  base::Status start(const RankCommand& command) {
    int output[2];
    if (::pipe2(output, O_CLOEXEC) != 0) return start_error("pipe");
    output_ = Descriptor(output[0]);
    const Descriptor output_end(output[1]);
    int reports[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, reports) != 0) return start_error("socketpair");
    reports_ = Descriptor(reports[0]);
    const Descriptor reports_end(reports[1]);
    for (const auto* ours : {&output_, &reports_}) ::fcntl(ours->get(), F_SETFL, O_NONBLOCK);
    const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!nothing.valid()) return start_error("/dev/null");

    // Everything is made ready here: between fork and exec other threads' locks may be held.
    const auto words = pointers(command.argv);
    const auto settings = pointers(merged_environment(command.environment));
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) return start_error("fork");
    if (pid_ == 0) become_rank(parent, nothing.get(), output_end.get(), reports_end.get(), words, settings);
    ::setpgid(pid_, pid_);  // here too, so that it holds whoever comes first
    return {};
  }

  int rank() const { return rank_; }
  bool running() const { return pid_ > 0 && !ended_; }
  const Descriptor& output() const { return output_; }
  const Descriptor& reports() const { return reports_; }

  /// Takes what it has printed and reported since.
  void read(const LaunchHooks& hooks) {
    if (output_.valid() && !drain(output_, [&](std::string_view bytes) { print(bytes); })) output_.reset();
    const auto take = [&](std::string_view bytes) {
      report_lines_.feed(bytes, [&](std::string_view line) {
        if (hooks.report) hooks.report(rank_, line);
      });
    };
    if (reports_.valid() && !drain(reports_, take)) reports_.reset();
  }

  /// To save and leave: how it then ends is its own doing.
  void ask() {
    if (running()) ::kill(pid_, SIGTERM);
  }
  /// To end: its end says nothing any more.
  void tell(int signal) {
    if (!running()) return;
    told_ = true;
    ::kill(pid_, signal);
  }

  /// How it ended, once; nullopt while it runs.
  std::optional<RankEnd> reap(const LaunchHooks& hooks, Duration after) {
    if (!running()) return std::nullopt;
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid_) {
      return std::nullopt;
    }
    // While it is not reaped its number cannot be another's: what it has started in its group goes with it.
    ::kill(-pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    ended_ = true;
    read(hooks);
    if (const std::string rest = lines_.take_rest(); !rest.empty()) keep(rest);
    RankEnd end{.rank = rank_, .pid = pid_, .by_us = told_, .after = after};
    if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
    end.last_lines.assign(last_lines_.begin(), last_lines_.end());
    return end;
  }

 private:
  static std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
    result.push_back(nullptr);
    return result;
  }

  /// Kept as a member: the pointers into it are used after the call.
  const std::vector<std::string>& merged_environment(const std::vector<std::string>& changes) {
    settings_ = changes;
    for (char** at = environ; *at != nullptr; ++at) {
      const std::string_view setting = *at;
      const auto name = setting.substr(0, setting.find('=') + 1);
      const bool changed =
          std::ranges::any_of(changes, [&](const std::string& change) { return change.starts_with(name); });
      if (!changed) settings_.emplace_back(setting);
    }
    return settings_;
  }

  [[noreturn]] static void become_rank(pid_t parent, int input, int output, int reports,
                                       const std::vector<char*>& words, const std::vector<char*>& settings) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kNotStarted);  // it died before it could be watched
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    // The report socket first goes out of the way of the numbers that are about to be taken.
    const int kept = ::fcntl(reports, F_DUPFD_CLOEXEC, 10);
    const int printed = ::fcntl(output, F_DUPFD_CLOEXEC, 10);
    if (kept < 0 || printed < 0 || ::dup2(input, STDIN_FILENO) < 0 || ::dup2(printed, STDOUT_FILENO) < 0 ||
        ::dup2(printed, STDERR_FILENO) < 0 || ::dup2(kept, kReportFd) < 0) {
      ::_exit(kNotStarted);
    }
    ::execve(words[0], words.data(), settings.data());
    const char* reason = std::strerror(errno);
    (void)!::write(STDERR_FILENO, reason, std::strlen(reason));
    ::_exit(kNotStarted);
  }

  void print(std::string_view bytes) {
    // A full disk must not end the job for the sake of its log; the metrics will tell of it.
    (void)log_.append(bytes).ok();
    lines_.feed(bytes, [this](std::string_view line) { keep(line); });
  }
  void keep(std::string_view line) {
    last_lines_.emplace_back(line);
    if (last_lines_.size() > kLastLines) last_lines_.pop_front();
  }

  const int rank_;
  base::AppendFile log_;
  std::vector<std::string> settings_;
  pid_t pid_ = -1;
  bool ended_ = false;
  bool told_ = false;
  Descriptor output_;
  Descriptor reports_;
  LineSplitter lines_{kLongestLine};
  LineSplitter report_lines_{kLongestReport};
  std::deque<std::string> last_lines_;
};

/// The ranks together: when one fails or the user asks, all are brought to an end.
class Watch {
 public:
  Watch(const LaunchTimes& times, const LaunchHooks& hooks, const base::Clock& clock)
      : times_(times), hooks_(hooks), clock_(clock), started_(clock.now()) {}

  base::Status start(const std::vector<RankCommand>& commands) {
    for (std::size_t i = 0; i < commands.size(); ++i) {
      YOKE_TRY(base::AppendFile log, base::AppendFile::open(commands[i].log));
      ranks_.push_back(std::make_unique<RankProcess>(static_cast<int>(i), std::move(log)));
      YOKE_CHECK(ranks_.back()->start(commands[i]));
    }
    return {};
  }

  LaunchOutcome run() {
    while (std::ranges::any_of(ranks_, [](const auto& rank) { return rank->running(); })) {
      wait();
      for (const auto& rank : ranks_) rank->read(hooks_);
      for (const auto& rank : ranks_) {
        if (auto end = rank->reap(hooks_, clock_.now() - started_)) take(*std::move(end));
      }
      heed_requests();
      press();
    }
    return std::move(outcome_);
  }

 private:
  void wait() const {
    std::vector<pollfd> sources;
    bool ending = false;
    for (const auto& rank : ranks_) {
      if (rank->running() && !rank->output().valid()) ending = true;
      for (const auto* source : {&rank->output(), &rank->reports()}) {
        if (source->valid()) sources.push_back({.fd = source->get(), .events = POLLIN, .revents = 0});
      }
    }
    // A rank that has closed its output is about to end: its end should be seen at once.
    const Duration limit = ending ? std::chrono::milliseconds(2) : kTick;
    ::poll(sources.data(), sources.size(),
           static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(limit).count()));
  }

  void take(RankEnd end) {
    // Interrupted: it was asked to stop and has saved; if nobody asked here, somebody has asked it directly.
    if (!end.ok() && end.exit_code != kExitInterrupted && !leave_by_) leave_by_ = clock_.now() + times_.leave;
    outcome_.ends.push_back(std::move(end));
  }

  void heed_requests() {
    const int requests = hooks_.stop_requests ? hooks_.stop_requests() : 0;
    if (requests > 0 && !outcome_.stop_requested) {
      outcome_.stop_requested = true;
      save_by_ = clock_.now() + times_.save;
      for (const auto& rank : ranks_) rank->ask();
    }
    const bool late = save_by_ && clock_.now() >= *save_by_;
    if ((requests > 1 || late) && !outcome_.killed_on_request) {
      outcome_.killed_on_request = true;
      tell_all(SIGKILL);
    }
  }

  /// After a failure: what still runs is told to end, then killed.
  void press() {
    const auto now = clock_.now();
    if (leave_by_ && now >= *leave_by_ && !end_by_) {
      end_by_ = now + times_.end;
      tell_all(SIGTERM);
    }
    if (end_by_ && now >= *end_by_) tell_all(SIGKILL);
  }

  void tell_all(int signal) {
    for (const auto& rank : ranks_) rank->tell(signal);
  }

  const LaunchTimes& times_;
  const LaunchHooks& hooks_;
  const base::Clock& clock_;
  const base::Instant started_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  std::optional<base::Instant> leave_by_;
  std::optional<base::Instant> end_by_;
  std::optional<base::Instant> save_by_;
  LaunchOutcome outcome_;
};

struct SignalMeaning {
  int number;
  std::string_view name;
  std::string_view meaning;
};
constexpr std::array kMeanings{
    SignalMeaning{SIGKILL, "SIGKILL",
                  "killed from outside, often by the kernel for want of memory (`dmesg` tells; fewer workers at a time "
                  "or smaller local batches need less)"},
    SignalMeaning{SIGSEGV, "SIGSEGV", "it used memory that is not its own: a bug, or broken hardware"},
    SignalMeaning{SIGBUS, "SIGBUS", "memory behind a mapping was not there: /dev/shm full, or a mapped file cut short"},
    SignalMeaning{SIGABRT, "SIGABRT", "it gave up; its last lines say why"},
    SignalMeaning{SIGFPE, "SIGFPE", "a whole number was divided by zero: a bug"},
    SignalMeaning{SIGILL, "SIGILL", "the processor does not know an instruction: built for another machine"},
    SignalMeaning{SIGTERM, "SIGTERM", "somebody asked it to end"},
    SignalMeaning{SIGINT, "SIGINT", "interrupted"},
    SignalMeaning{SIGXCPU, "SIGXCPU", "it used up the processor time it may have (`ulimit -t`)"},
    SignalMeaning{SIGPIPE, "SIGPIPE", "whom it was writing to is gone"},
};

}  // namespace

const RankEnd* LaunchOutcome::cause() const {
  // Asked to stop before it was ready to be asked: the others have lost a peer, but nothing has failed.
  if (stop_requested && !ends.empty() && ends.front().signal == SIGTERM) return nullptr;
  const RankEnd* first = nullptr;
  for (const auto& end : ends) {
    if (end.ok() || end.by_us || end.exit_code == kExitInterrupted) continue;
    if (first == nullptr) first = &end;
    if (end.exit_code != base::exit_code(base::ErrorKind::kPeer) && end.after - first->after <= kSameMoment)
      return &end;
  }
  return first;
}

base::Result<LaunchOutcome> run_ranks(const std::vector<RankCommand>& commands, const LaunchTimes& times,
                                      const LaunchHooks& hooks, const base::Clock& clock) {
  base::require(!commands.empty(), "run_ranks: no ranks");
  Watch watch(times, hooks, clock);
  YOKE_CHECK(watch.start(commands));
  return watch.run();
}

std::string name_end(const RankEnd& end) {
  if (end.exit_code == kNotStarted) return "could not be started";
  if (end.exit_code) return fmt::format("ended with exit code {}", *end.exit_code);
  const auto* known = std::ranges::find(kMeanings, end.signal, &SignalMeaning::number);
  return known == kMeanings.end() ? fmt::format("was ended by signal {}", end.signal)
                                  : fmt::format("was ended by {}", known->name);
}

std::string_view signal_meaning(int signal) {
  const auto* known = std::ranges::find(kMeanings, signal, &SignalMeaning::number);
  return known == kMeanings.end() ? std::string_view() : known->meaning;
}

}  // namespace yoke::cli
