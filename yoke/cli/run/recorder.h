// What training tells, written into the run folder: by rank 0 all of it, by other ranks and by the launcher events
// only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "yoke/base/files.h"
#include "yoke/base/result.h"
#include "yoke/base/tensorboard.h"
#include "yoke/cli/run/run_result.h"
#include "yoke/engine/rank.h"
#include "yoke/plan/plan.h"

namespace yoke::cli {

/// Seconds since 1970.
double time_of_day();

/// events.jsonl. Several processes append to it, each whole lines. One thread only.
class EventLog {
 public:
  /// `rank` is put into each line; absent for the launcher.
  EventLog(std::string folder, std::optional<int> rank) : folder_(std::move(folder)), rank_(rank) {}
  base::Status add(const engine::Event& event);

 private:
  std::string folder_;
  std::optional<int> rank_;
  std::optional<base::AppendFile> file_;  // opened with the first event
};

/// metrics.jsonl, events.jsonl, plan.json, TensorBoard files and, at the end, result.json. Each step is on the disk's
/// way when step() returns, so it is there before a checkpoint of that step. One thread only.
class Recorder {
 public:
  /// `resumes`: the first step that comes makes void what the files say of it and of later ones.
  Recorder(std::string folder, bool resumes);

  base::Status plan(const plan::Plan& plan);
  base::Status step(const engine::StepReport& step);
  base::Status event(const engine::Event& event);

  /// Publishes result.json and returns what is in it. `equal_split_step_seconds` is the launcher's; an event of the
  /// engine's may have said otherwise.
  base::Result<RunResult> finish(const engine::RankResult& rank, double wall_seconds,
                                 std::optional<double> equal_split_step_seconds, profile::Source plan_source);

 private:
  base::Status begin_steps(std::int64_t first);
  base::Status board(std::int64_t step, const std::vector<base::Scalar>& scalars);

  std::string folder_;
  bool resumes_;
  EventLog events_;
  std::optional<base::AppendFile> metrics_;
  std::optional<base::TensorBoardWriter> board_;
  std::optional<double> equal_split_step_seconds_;
  std::int64_t samples_ = 0;
  double step_seconds_ = 0;
};

/// The lines of a metrics.jsonl that tell of steps before `first`; others and torn ones are left out.
std::string metrics_before(std::string_view metrics, std::int64_t first);

}  // namespace yoke::cli
