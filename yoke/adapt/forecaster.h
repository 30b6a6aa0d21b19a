// Where the global batch is going: the average of a Gaussian process, which carries trends and cycles on, and of
// exponential smoothing, which stays at the present level. The scheduler prices candidate machines over the forecast.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "yoke/adapt/batch_policy.h"
#include "yoke/base/result.h"

namespace yoke::adapt {

/// The batch in force after the decision taken at `step`.
struct BatchPoint {
  std::int64_t step = 0;
  std::int64_t gbs = 1;

  bool operator==(const BatchPoint&) const = default;
};

struct ForecastOptions {
  BatchBounds bounds;
  /// The Gaussian process looks at this many of the newest points. Few are better: far from its points it returns to
  /// their mean, and the mean of a long past is a poor forecast. Smoothing sees all points.
  int recent_points = 5;
  /// Local searches for each kernel. More may find a likelier one and take longer.
  int starts = 8;
  std::uint64_t seed = 1;
};

/// One entry per step asked for, all finite and within the bounds.
struct Forecast {
  std::vector<double> gbs;  // the forecast: the mean of the next two
  std::vector<double> process;
  std::vector<double> smoothing;

  bool operator==(const Forecast&) const = default;
};

/// The batch expected at each of `steps`. `history` is ascending in step, without a step twice; fewer than three points
/// show no trend and are continued flat from the newest. Deterministic. Input error if there is no point, the history
/// is not ascending, a step or batch is out of range or the options are invalid.
base::Result<Forecast> forecast(std::span<const BatchPoint> history, std::span<const std::int64_t> steps,
                                const ForecastOptions& options);

/// Where a coming epoch begins, as training knows it at the end of the one before.
struct EpochStart {
  std::int64_t step = 0;        // steps done so far
  std::int64_t gbs = 1;         // in force
  std::int64_t samples = 1;     // of the whole epoch
  std::int64_t interval = 100;  // steps between two decisions of the batch policy
};

/// The batches expected over the epoch: the present one, then one for each decision that the epoch has room for at the
/// present batch. Without any history the batch is expected to stay. Input error as above, or if the epoch's numbers
/// are below 1 (step: below 0) or absurdly large.
base::Result<std::vector<double>> forecast_epoch(std::span<const BatchPoint> history, const EpochStart& epoch,
                                                 const ForecastOptions& options);

}  // namespace yoke::adapt
