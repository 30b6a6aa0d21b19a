#include "yoke/sim/judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "yoke/base/units.h"
#include "yoke/sim/simulator.h"

namespace yoke::sim {
namespace {

/// Enough to see a pipeline full that is never drained: a few times what is in flight.
int steps_for(const plan::Plan& plan) {
  constexpr int kTimesInFlight = 4;
  constexpr int kMostSteps = 64;
  int steps = 1;
  for (const auto& lane : plan.pipeline_lanes) {
    const auto kind = plan::parse_schedule_kind(lane.schedule);
    if (!kind.ok() || plan::keeps_the_math(*kind)) continue;
    const int flying = (plan::warmup_of(lane, 0) + 1) * static_cast<int>(lane.stages.front().devices.size());
    steps = std::clamp(kTimesInFlight * flying / lane.workers + 3, steps, kMostSteps);
  }
  return steps;
}

}  // namespace

base::Result<plan::Judgement> SimulatedJudge::judge(const plan::Plan& plan) const {
  const plan::ScheduleRequest request{.steps = steps_for(plan)};
  auto priced = graph_ != nullptr ? price_with_profile(plan, *graph_, cluster_, costs_, request)
                                  : price_as_predicted(plan, request);
  if (!priced.ok()) return priced.error();
  const plan::Schedule& schedule = priced->schedule;
  Network network = Network::ideal(static_cast<int>(schedule.programs.size()));
  if (graph_ != nullptr) {
    YOKE_TRY(network, Network::make(cluster_, plan.devices(), network_));
  }
  YOKE_TRY(const SimReport report, simulate(schedule, priced->costs, network));
  plan::Judgement judgement{.step_seconds = report.steady_step_seconds(),
                            .computing = report.computing_share(),
                            .exposed_communication = report.exposed_communication_share(),
                            .bubble = report.bubble_share(),
                            .peak_bytes = report.peak_bytes()};
  std::vector<double> peaks;
  for (const auto& device : report.devices) peaks.push_back(device.peak_bytes);
  if (const auto excess = memory_excess(schedule, peaks, cluster_)) {
    judgement.excess = fmt::format("memory: {} needs {} and has {}",
                                   schedule.programs[static_cast<std::size_t>(excess->program)].device.to_string(),
                                   base::format(base::Bytes{static_cast<std::int64_t>(excess->needed)}),
                                   base::format(base::Bytes{static_cast<std::int64_t>(excess->limit)}));
  }
  return judgement;
}

}  // namespace yoke::sim
