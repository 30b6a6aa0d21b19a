#include "yoke/engine/evaluation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "yoke/data/loader.h"
#include "yoke/engine/stage_script.h"

namespace yoke::engine {
namespace {

constexpr std::int64_t kLeastBatch = 32;  // small local batches would only take longer here
constexpr std::size_t kBatchesAhead = 8;  // that lie ready or are in the making

using Batches = std::vector<std::vector<std::int64_t>>;  // indices of samples

/// Batches are dealt to lanes in turn.
Batches own_batches(const Layout& layout, std::int64_t samples) {
  const auto& plan = layout.plan();
  const std::int64_t batch = std::max<std::int64_t>(plan.lbs, kLeastBatch);
  const auto lanes = static_cast<std::int64_t>(plan.data_lanes.size() + plan.pipeline_lanes.size());
  Batches batches;
  for (std::int64_t begin = batch * layout.own().lane; begin < samples; begin += batch * lanes) {
    auto& indices = batches.emplace_back();
    for (std::int64_t i = begin; i < std::min(samples, begin + batch); ++i) indices.push_back(i);
  }
  return batches;
}

base::Result<LaneReport> evaluate_lane(const EvaluatingLane& on, const Batches& batches, data::Loader& loader,
                                       const Until& until) {
  std::vector<Work> work;
  for (const auto& indices : batches) {
    work.push_back({.worker = static_cast<std::int64_t>(work.size()), .ticket = loader.order({.indices = indices})});
  }
  return on.data->evaluate(std::move(work), on.here, until());
}

base::Result<LaneReport> evaluate_stage(const EvaluatingLane& on, const Batches& batches, data::Loader& loader,
                                        const Until& until) {
  if (batches.empty()) return LaneReport{};
  YOKE_TRY(const auto schedule, on.layout.evaluation_of(static_cast<int>(batches.size())));
  StageScript script = evaluation_script(on.layout, schedule);
  std::vector<Work> work;
  for (const auto& op : script.ops) {
    if (op.kind != plan::ScheduleOpKind::kForward) continue;
    Work one{.worker = op.worker};
    if (script.first_stage) one.ticket = loader.order({.indices = batches[static_cast<std::size_t>(op.worker)]});
    work.push_back(std::move(one));
  }
  on.stage->start(std::move(script), std::move(work), until());
  return on.stage->finish();
}

}  // namespace

base::Result<LaneReport> evaluate_share(const EvaluatingLane& on, const data::Dataset& test, int threads,
                                        const Until& until, const base::Clock& clock) {
  data::Loader loader(test, {.threads = threads, .capacity = kBatchesAhead}, clock);
  const Batches batches = own_batches(on.layout, test.info().size);
  return on.stage != nullptr ? evaluate_stage(on, batches, loader, until) : evaluate_lane(on, batches, loader, until);
}

}  // namespace yoke::engine
