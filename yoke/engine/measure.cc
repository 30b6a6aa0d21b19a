#include "yoke/engine/measure.h"

#include <algorithm>

#include "yoke/engine/collectives.h"
#include "yoke/engine/median.h"
#include "yoke/engine/reducer.h"

namespace yoke::engine {
namespace {

// Passes that count, after one that does not; more of them while they are short.
constexpr int kMeasured = 3;
constexpr int kMostMeasured = 30;
constexpr double kMeasureSeconds = 0.15;
constexpr int kMeasuredRounds = 2;

base::Result<Work> work_for(const MeasuredLane& on, int number, int lbs) {
  // Worker 0 would change the buffers.
  const auto worker = static_cast<std::uint32_t>(number + 1);
  const auto stream = [&](base::Purpose purpose) {
    return base::StreamName{.seed = on.seed, .worker = worker, .purpose = purpose};
  };
  std::vector<std::int64_t> indices;
  for (std::int64_t k = 0; k < lbs; ++k) indices.push_back((number * lbs + k) % on.data.info().size);
  YOKE_TRY(auto batch, on.data.load(indices, stream(base::Purpose::kAugment)));
  return Work{.worker = worker, .batch = std::move(batch), .draw = stream(base::Purpose::kDropout)};
}

/// As a step of the trainer would.
base::Result<LaneReport> run(DataLane& lane, std::vector<Work> work, const base::Deadline& deadline) {
  if (lane.vsw() == 1) return lane.run_here(std::move(work), deadline);
  lane.start(std::move(work), deadline);
  return lane.finish(deadline);
}

}  // namespace

base::Result<Measurement> measure_passes(const MeasuredLane& on, int lbs, int vsw, base::Duration patience,
                                         const base::Clock& clock) {
  on.lane.resize(vsw);
  std::vector<double> data;
  std::vector<double> forward;
  std::vector<double> backward;
  std::int64_t peak = 0;
  double spent = 0;
  for (int pass = 0; pass <= kMeasured || (pass <= kMostMeasured && spent < kMeasureSeconds); ++pass) {
    std::vector<Work> work;
    for (int i = 0; i < kMeasuredRounds * vsw; ++i) {
      const auto begin = clock.now();
      YOKE_TRY(Work one, work_for(on, i, lbs));
      data.push_back(base::to_seconds(clock.now() - begin));
      work.push_back(std::move(one));
    }
    on.device.reset_peak_memory();
    const auto begin = clock.now();
    const auto deadline = base::Deadline::in(patience, clock);
    on.holding.gradients().begin(kMeasuredRounds * vsw);
    YOKE_TRY(const LaneReport report, run(on.lane, std::move(work), deadline));
    const double seconds = base::to_seconds(clock.now() - begin);
    peak = std::max(peak, on.device.memory().peak_bytes);
    spent += seconds;
    if (pass == 0) continue;
    // All that a round takes, also around the passes, in the proportion of the passes.
    const double share = report.forward_seconds / (report.forward_seconds + report.backward_seconds);
    forward.push_back(seconds / kMeasuredRounds * share);
    backward.push_back(seconds / kMeasuredRounds * (1 - share));
  }
  return Measurement{
      .data = median(data), .forward = median(forward), .backward = median(backward), .peak_bytes = peak};
}

double measure_update(Holding& holding, double speed, const base::Clock& clock) {
  std::vector<double> seconds;
  const std::size_t count = holding.parameters().buckets().size();
  for (int pass = 0; pass < kMeasured; ++pass) {
    const auto begin = clock.now();
    for (std::size_t i = 0; i < count; ++i) holding.optimizer().update(i, {.lr = 0, .scale = 0});
    wait_as_slow_device(speed, clock.now() - begin);
    seconds.push_back(base::to_seconds(clock.now() - begin));
  }
  for (auto& [name, tensor] : holding.state()) tensor.zero_();
  return median(seconds);
}

base::Result<double> measure_all_reduce(const Holding& holding, comm::Group& group, base::Duration patience,
                                        const base::Clock& clock) {
  std::vector<double> seconds;
  for (int pass = 0; pass < kMeasured; ++pass) {
    const auto deadline = base::Deadline::in(patience, clock);
    YOKE_CHECK(group.run(comm::barrier(), deadline));
    const auto begin = clock.now();
    for (const auto& bucket : holding.parameters().buckets()) {
      if (group.size() > 1) YOKE_CHECK(all_reduce(bucket.gradients, group, deadline));
    }
    seconds.push_back(base::to_seconds(clock.now() - begin));
  }
  return median(seconds);
}

std::vector<double> bucket_mebibytes(const Holding& holding) {
  std::vector<double> sizes;
  for (const auto& bucket : holding.parameters().buckets()) {
    std::int64_t elements = 0;
    for (const auto& segment : bucket.segments) elements += segment.count;
    sizes.push_back(static_cast<double>(elements * bucket.weights.element_size()) / (1 << 20));
  }
  return sizes;
}

}  // namespace yoke::engine
