#include "yoke/plan/cost/choose_cost.h"

#include <fmt/format.h>

#include <algorithm>

#include "yoke/base/text.h"
#include "yoke/plan/cost/iidp_model.h"
#include "yoke/plan/cost/measured_model.h"

namespace yoke::plan {

base::Result<ChosenCost> choose_cost(const std::string& name, cluster::Cluster cluster,
                                     const profile::ProfileSet& profiles) {
  const std::vector<std::string> names{"auto", "iidp", "measured"};
  if (std::ranges::find(names, name) == names.end()) {
    return base::input_error(fmt::format("found {}, expected {}{}", base::quote(name), base::join_words(names, "or"),
                                         base::did_you_mean(name, names)),
                             {.field = "cost"});
  }
  if (name == "measured" || (name == "auto" && MeasuredModel::can_use(profiles))) {
    YOKE_TRY(MeasuredModel model, MeasuredModel::make(std::move(cluster), profiles));
    auto warnings = model.warnings();
    return ChosenCost{std::make_unique<MeasuredModel>(std::move(model)), "measured", std::move(warnings)};
  }
  YOKE_TRY(IidpModel model, IidpModel::make(std::move(cluster), profiles));
  auto warnings = model.warnings();
  return ChosenCost{std::make_unique<IidpModel>(std::move(model)), "iidp", std::move(warnings)};
}

}  // namespace yoke::plan
