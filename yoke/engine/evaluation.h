// Evaluation on test data that all lanes share: forward passes of a rank's part of it. Free functions on lanes that the
// trainer owns, called in its thread between two steps.
#pragma once

#include <cstdint>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/data/dataset.h"
#include "yoke/engine/data_lane.h"
#include "yoke/engine/lane.h"
#include "yoke/engine/layout.h"
#include "yoke/engine/stage_lane.h"

namespace yoke::engine {

struct Evaluation {
  double loss = 0;
  double accuracy = 0;
  std::int64_t samples = 0;
};

/// What evaluates, all borrowed: one of the two lanes.
struct EvaluatingLane {
  const Layout& layout;
  DataLane* data = nullptr;
  StageLane* stage = nullptr;
  bool here = false;  // a data lane: in the calling thread
};

/// Sums over the batches of this rank's lane; a stage knows of them what LaneReport says. Every rank of a pipeline
/// calls it. `threads` load the samples.
base::Result<LaneReport> evaluate_share(const EvaluatingLane& on, const data::Dataset& test, int threads,
                                        const Until& until, const base::Clock& clock);

}  // namespace yoke::engine
