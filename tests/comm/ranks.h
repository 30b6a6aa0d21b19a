// Ranks of a group as processes (or as threads), all playing one scenario.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/comm/scenario.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "yoke/comm/join.h"
#include "yoke/comm/store/tcp_store.h"

namespace yoke::comm::testing {

/// Which kind of group, as tests name it. `hierarchical` pretends that ranks are on two hosts, dealt in turn.
inline std::string host_of(const std::string& backend, int rank) {
  return backend == "hierarchical" ? fmt::format("host{}", rank % 2) : "";
}

inline bool has_backend(const std::string& name) {
  for (const auto& info : list_backends()) {
    if (info.name == (name == "hierarchical" ? "gloo" : name)) return info.available;
  }
  return false;
}

/// What each rank has said at the end: `ok`, a failure's report, a problem, or how it ended otherwise.
using Outcomes = std::vector<std::string>;

inline Outcomes play_in_threads(const Scenario& scenario, int size) {
  const base::SystemClock clock;
  auto store = make_memory_store();
  Outcomes outcomes(static_cast<std::size_t>(size));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto own = store->another(base::Deadline::in(std::chrono::seconds(1), clock));
      auto group = join({.name = "test", .rank = rank, .size = size, .backend = "local"}, **own,
                        base::Deadline::in(std::chrono::seconds(20), clock), clock);
      std::string& outcome = outcomes[static_cast<std::size_t>(rank)];
      outcome = group.ok() ? play(scenario, **group, clock) : group.error().to_string();
      if (outcome.empty()) outcome = "ok";
    });
  }
  threads.clear();
  return outcomes;
}

inline std::vector<std::string> words_of(const Scenario& scenario) {
  using std::chrono::milliseconds;
  return {"scenario=" + scenario.name, "op=" + scenario.op, fmt::format("victim={}", scenario.victim),
          "act=" + scenario.act,
          fmt::format("patience_ms={}", std::chrono::duration_cast<milliseconds>(scenario.patience).count())};
}

inline std::string last_line(const std::string& text) {
  const auto end = text.find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const auto begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

/// The victim of `stop` never ends by itself: it is not waited for.
inline Outcomes play_in_processes(const std::string& backend, const Scenario& scenario, int size,
                                  std::chrono::seconds limit = std::chrono::seconds(240)) {
  auto server = TcpStoreServer::start("127.0.0.1");
  std::vector<yoke::testing::Process> ranks;
  for (int rank = 0; rank < size; ++rank) {
    std::vector<std::string> command{yoke::testing::program("yoke_comm_rank"),
                                     "backend=" + backend,
                                     fmt::format("rank={}", rank),
                                     fmt::format("size={}", size),
                                     fmt::format("store=127.0.0.1:{}", (*server)->port()),
                                     "host=" + host_of(backend, rank)};
    for (const auto& word : words_of(scenario)) command.push_back(word);
    ranks.emplace_back(command);
  }
  Outcomes outcomes;
  for (int rank = 0; rank < size; ++rank) {
    auto& process = ranks[static_cast<std::size_t>(rank)];
    if (scenario.act == "stop" && rank == scenario.victim) {
      outcomes.push_back("stopped");
    } else if (!process.wait(limit)) {
      outcomes.push_back("still running: " + process.output());
    } else if (process.exit_code() >= 2) {
      outcomes.push_back(fmt::format("exit {}: {}", process.exit_code(), process.output()));
    } else {
      outcomes.push_back(last_line(process.output()));
    }
  }
  return outcomes;
}

inline Outcomes play_anywhere(const std::string& backend, const Scenario& scenario, int size) {
  return backend == "local" ? play_in_threads(scenario, size) : play_in_processes(backend, scenario, size);
}

/// Seconds in `failed after 0.512 s, ...`; -1 for another outcome.
inline double seconds_of(const std::string& outcome) {
  constexpr std::string_view kStart = "failed after ";
  return outcome.starts_with(kStart) ? std::atof(outcome.c_str() + kStart.size()) : -1;
}

}  // namespace yoke::comm::testing
