// How far the first two cores that this process may use are from each other: nanoseconds for a word there and back.
//   bench_core_distance
// On a virtual machine that is not always the same: its cores are moved about, and what two ranks tell each other in
// shared memory takes several times as long while they are far apart. Prints one JSON object.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <thread>
#include <vector>

namespace {

constexpr int kRounds = 21;
constexpr int kTurns = 5000;

struct alignas(128) Word {
  std::atomic<int> value{0};
  void wait_for(int turn) const {
    while (value.load(std::memory_order_acquire) < turn) {
    }
  }
  void set(int turn) { value.store(turn, std::memory_order_release); }
};

std::vector<int> usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  return cores;
}

void stay_on(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ::sched_setaffinity(0, sizeof(one), &one);
}

double round_trip_ns(int here, int there) {
  Word ping;
  Word pong;
  std::thread other([&] {
    stay_on(there);
    pong.set(1);
    for (int turn = 2; turn <= kTurns; ++turn) {
      ping.wait_for(turn);
      pong.set(turn);
    }
  });
  stay_on(here);
  pong.wait_for(1);
  const auto begin = std::chrono::steady_clock::now();
  for (int turn = 2; turn <= kTurns; ++turn) {
    ping.set(turn);
    pong.wait_for(turn);
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  other.join();
  return took.count() / (kTurns - 1);
}

}  // namespace

int main() {
  const auto cores = usable_cores();
  if (cores.size() < 2) {
    std::cerr << "bench_core_distance: found one core, expected two\n";
    return 2;
  }
  std::vector<double> all;
  for (int i = 0; i < kRounds; ++i) all.push_back(round_trip_ns(cores[0], cores[1]));
  std::ranges::sort(all);
  fmt::print("{{\"bench\":\"core distance\",\"median_ns\":{:.0f},\"least_ns\":{:.0f},\"most_ns\":{:.0f}}}\n",
             all[all.size() / 2], all.front(), all.back());
  return 0;
}
