// What a run came to: result.json, and the few lines that people read at the end.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "yoke/base/json.h"
#include "yoke/base/result.h"
#include "yoke/engine/rank.h"
#include "yoke/profile/source.h"

namespace yoke::cli {

struct RunResult {
  engine::RankResult rank;
  double wall_seconds = 0;                                   // of this start of the run
  std::optional<double> samples_per_second;                  // of the steps of this start
  std::optional<double> equal_split_step_seconds;            // what the plan was compared with
  profile::Source plan_source = profile::Source::kMeasured;  // of the profiles that the plan at the start was made from
};

/// How far the prediction was off: 0.1 when the step was foreseen to take a tenth longer than it did. Absent where
/// nobody predicted or measured.
std::optional<double> prediction_error(const engine::RankResult& result);

/// The content of result.json.
base::Json to_json(const RunResult& result);
base::Result<RunResult> parse_result(std::string_view json, const std::string& file);
base::Result<RunResult> load_result(const std::string& path);
base::Status save_result(const std::string& path, const RunResult& result);

/// Aligned lines for people; `folder` is where the run is.
std::string summarize(const RunResult& result, const std::string& folder);

}  // namespace yoke::cli
