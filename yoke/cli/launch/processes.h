// Starts one process per rank, watches them all, and sees to it that none is left behind: each dies with this process,
// and when one fails the others are given a moment to leave, then told to, then killed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"

namespace yoke::cli {

struct RankCommand {
  std::vector<std::string> argv;         // argv[0] is the path of the program
  std::vector<std::string> environment;  // NAME=value, over those of this process
  std::string log;                       // what it prints is appended to this file
};

/// The descriptor of a rank's report socket, in the rank (environment.h names the variable that tells it).
inline constexpr int kReportFd = 3;

struct LaunchTimes {
  base::Duration leave = std::chrono::seconds(5);  // for the others to end by themselves once one has failed
  base::Duration end = std::chrono::seconds(3);    // from SIGTERM to SIGKILL
  base::Duration save = std::chrono::minutes(5);   // from the request to stop to SIGKILL
};

struct LaunchHooks {
  /// A line that a rank has sent over its report socket, without the newline.
  std::function<void(int rank, std::string_view line)> report = nullptr;
  /// How often the user has asked to stop: at the first request every rank gets SIGTERM and time to save, at the
  /// second they are killed.
  std::function<int()> stop_requests = nullptr;
};

/// How a rank's process ended.
struct RankEnd {
  int rank = 0;
  int pid = 0;
  std::optional<int> exit_code;  // absent: ended by `signal`
  int signal = 0;
  bool by_us = false;                   // after we had told it to end
  base::Duration after{};               // since the start
  std::vector<std::string> last_lines;  // of what it printed, at most kLastLines

  bool ok() const { return exit_code == 0; }
};
inline constexpr std::size_t kLastLines = 20;

struct LaunchOutcome {
  std::vector<RankEnd> ends;  // in the order of ending
  bool stop_requested = false;
  bool killed_on_request = false;  // a second request, or nobody had saved in time

  /// The rank that failed first: what the others then complain about. nullptr when none failed by itself. A rank that
  /// lost a peer (exit code 4) is the cause only where no other ended for another reason about then.
  const RankEnd* cause() const;
};

/// Until all ranks have ended. Error of kind kPeer when a process cannot be started (those started are gone then).
base::Result<LaunchOutcome> run_ranks(const std::vector<RankCommand>& commands, const LaunchTimes& times,
                                      const LaunchHooks& hooks, const base::Clock& clock);

/// `was ended by SIGKILL`, `ended with exit code 2`, `could not be started`.
std::string name_end(const RankEnd& end);
/// What a signal usually means and what to do, e.g. of SIGKILL: the kernel was short of memory; empty when nothing is
/// known.
std::string_view signal_meaning(int signal);

}  // namespace yoke::cli
