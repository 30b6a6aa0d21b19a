#include "yoke/cli/run/failure.h"

#include <fmt/format.h>

#include <algorithm>

#include "yoke/base/files.h"
#include "yoke/base/units.h"

namespace yoke::cli {
namespace {

std::string device_of(int rank, const RunFacts& facts) {
  return facts.devices.at(static_cast<std::size_t>(rank)).id.to_string();
}

std::string log_of(int rank, const RunFacts& facts) {
  return base::join_path(facts.folder, fmt::format("logs/rank-{}.log", rank));
}

base::ErrorKind kind_of(const RankEnd& end) {
  for (const auto kind : {base::ErrorKind::kInput, base::ErrorKind::kInfeasible, base::ErrorKind::kInternal}) {
    if (end.exit_code == base::exit_code(kind)) return kind;
  }
  return base::ErrorKind::kPeer;
}

}  // namespace

const RankEnd* first_failure(const LaunchOutcome& outcome, const RunFacts& facts) {
  const RankEnd* cause = outcome.cause();
  const int lost_peer = base::exit_code(base::ErrorKind::kPeer);
  const auto fails_by_itself = [&](const RankEnd& end) {
    const auto said = facts.errors.find(end.rank);
    return end.exit_code == lost_peer && said != facts.errors.end() && !said->second.where.file.empty();
  };
  if (cause == nullptr || cause->exit_code != lost_peer || fails_by_itself(*cause)) return cause;
  const auto other = std::ranges::find_if(outcome.ends, fails_by_itself);
  return other == outcome.ends.end() ? cause : &*other;
}

base::Error failure_of(const RankEnd& cause, const RunFacts& facts) {
  const base::ErrorKind kind = kind_of(cause);
  const auto said = facts.errors.find(cause.rank);
  if (said != facts.errors.end() && (kind == base::ErrorKind::kInput || kind == base::ErrorKind::kInfeasible)) {
    return {kind, said->second.message, said->second.where};
  }
  std::string message = fmt::format("rank {} ({} on {}, pid {}) {}", cause.rank, device_of(cause.rank, facts),
                                    facts.host, cause.pid, name_end(cause));
  if (const auto meaning = signal_meaning(cause.signal); !meaning.empty()) message += fmt::format(" ({})", meaning);
  if (said != facts.errors.end()) message += fmt::format(": {}", said->second.to_string());
  message += facts.step > 0
                 ? fmt::format("; step {} was the last; --resume goes on from the newest checkpoint", facts.step)
                 : std::string("; no step was made");
  message += fmt::format("; its log is {}", log_of(cause.rank, facts));
  return {kind, std::move(message), {}};
}

std::vector<std::string> failure_report(const LaunchOutcome& outcome, const RankEnd& cause, const RunFacts& facts) {
  std::vector<std::string> lines;
  for (const auto& end : outcome.ends) {
    lines.push_back(fmt::format("after {}: rank {} ({}) {}{}", base::format_seconds(base::to_seconds(end.after)),
                                end.rank, device_of(end.rank, facts), name_end(end),
                                &end == &cause ? "  <- first"
                                : end.by_us    ? " (told to end)"
                                               : ""));
  }
  if (cause.last_lines.empty()) return lines;
  lines.push_back(fmt::format("the last lines of rank {}:", cause.rank));
  for (const auto& line : cause.last_lines) lines.push_back("  | " + line);
  return lines;
}

}  // namespace yoke::cli
