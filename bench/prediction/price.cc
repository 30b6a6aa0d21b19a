// Prices a given plan by profiles: what prediction.py compares runs with.
//   bench_price CLUSTER PROFILES COST LBS NODE:VSW:GA[,NODE:VSW:GA...]
// Prints a plan file whose step_seconds is what the cost model (iidp or measured) foretells.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cluster/cluster_file.h"
#include "yoke/plan/cost/choose_cost.h"
#include "yoke/plan/plan.h"
#include "yoke/profile/profile_folder.h"

namespace {

using namespace yoke;

base::Result<plan::Plan> price(const std::vector<std::string>& words) {
  YOKE_TRY(cluster::Cluster cluster, cluster::load_cluster(words[0]));
  YOKE_TRY(const profile::ProfileSet profiles, profile::load_profiles(words[1]));
  YOKE_TRY(const plan::ChosenCost cost, plan::choose_cost(words[2], cluster, profiles));
  YOKE_TRY(const auto lbs, base::parse_integer(words[3]));
  plan::Plan plan{.model = profiles.model,
                  .lbs = static_cast<int>(lbs),
                  .sync = cost.model->recommended_sync(),
                  .cost_model = cost.name};
  const auto lanes = base::split(words[4], ",");
  const plan::Extent extent{.devices = static_cast<int>(lanes.size()), .across_nodes = lanes.size() > 1};
  for (const auto lane : lanes) {
    const auto parts = base::split(lane, ":");
    if (parts.size() != 3) return base::input_error("expected NODE:VSW:GA");
    YOKE_TRY(const auto vsw, base::parse_integer(parts[1]));
    YOKE_TRY(const auto ga, base::parse_integer(parts[2]));
    const std::string name(parts[0]);
    const auto& nodes = cluster.nodes();
    const auto node = std::ranges::find(nodes, name, &cluster::Node::name);
    if (node == nodes.end()) return base::input_error("the cluster has no node " + name);
    const int device_class = cost.model->node_classes()[static_cast<std::size_t>(node - nodes.begin())];
    const plan::LaneWork work{.lbs = plan.lbs, .vsw = static_cast<int>(vsw), .ga = static_cast<int>(ga)};
    if (work.vsw > cost.model->max_vsw(device_class, work.lbs)) {
      return base::infeasible_error(fmt::format("{} workers of {} samples were not profiled", work.vsw, work.lbs));
    }
    const auto seconds = cost.model->parts(device_class, work, plan.sync, extent);
    plan.data_lanes.push_back({.device = {name, 0}, .vsw = work.vsw, .ga = work.ga, .seconds = seconds});
    plan.step_seconds = std::max(plan.step_seconds, cost.model->step_seconds(device_class, work, plan.sync, extent));
  }
  plan.gbs = plan.workers() * plan.lbs;
  return plan;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() != 5) {
    std::cerr << "bench_price CLUSTER PROFILES COST LBS NODE:VSW:GA[,...]\n";
    return 2;
  }
  const auto plan = price(words);
  if (!plan.ok()) {
    std::cerr << plan.error().to_string() << "\n";
    return base::exit_code(plan.error().kind);
  }
  std::cout << plan::to_json(*plan);
  return 0;
}
