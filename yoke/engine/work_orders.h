// The work of a rank's workers, with their samples ordered from the data set some time before they are needed. The
// trainer owns one for each plan. One thread at a time uses it: the trainer's, or during a span (running_span.h) the
// stage's.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/base/rng.h"
#include "yoke/comm/group.h"
#include "yoke/data/dataset.h"
#include "yoke/data/loader.h"
#include "yoke/data/sampler.h"
#include "yoke/engine/lane.h"

namespace yoke::engine {

/// Steps, or rounds of a span, whose samples are ordered before they are needed.
inline constexpr int kStepsAhead = 2;

/// How many workers of the step at a cursor have samples: at the end of an epoch there may be fewer than others have.
int workers_with_samples(const data::Sampler& sampler, const data::Cursor& at, const data::StepShape& shape);

/// Where corrupt samples are left out, weights follow from how many are left, which only the ranks together know: takes
/// the batches of `work` in, sets its weights and returns the samples of the step. Every rank of the group calls it.
base::Result<std::int64_t> count_samples(std::vector<Work>& work, const data::StepShape& shape, comm::Group& group,
                                         const base::Deadline& deadline);

struct WorkOptions {
  std::uint64_t seed = 0;
  std::int64_t epochs = 1;
  data::StepShape shape;
  std::vector<std::int64_t> own_workers;  // of a full step, that this rank runs
  bool loads_data = true;                 // else another stage does: work comes without samples
  int threads = 1;                        // that load
};

class WorkOrders {
 public:
  /// What is given by reference must outlive this.
  WorkOrders(const data::Sampler& sampler, const data::Dataset& data, WorkOptions options, const base::Clock& clock);

  /// Of one worker of the step at a cursor. Nothing when the epoch has no samples left for it.
  std::optional<Work> order(const data::Cursor& at, std::int64_t worker);

  /// Of all own workers of the step at `cursor`, which is the one after that of the last call. Precondition: the last
  /// epoch is not over.
  std::vector<Work> take_step(const data::Cursor& cursor);
  /// The next step is not the one after the last.
  void forget() { ordered_.clear(); }

 private:
  struct OrderedStep {
    data::Cursor cursor;
    std::vector<Work> work;
  };
  OrderedStep order_step(const data::Cursor& at);
  base::StreamName stream(const data::Cursor& at, std::int64_t worker, base::Purpose purpose) const;

  const data::Sampler& sampler_;
  const WorkOptions options_;
  data::Loader loader_;
  std::deque<OrderedStep> ordered_;  // the first is the next step
};

}  // namespace yoke::engine
