// `yoke plan`: the group of planning commands; one file each.
#include "yoke/cli/plan.h"

namespace yoke::cli {

void add_plan(CLI::App& app, Action& chosen) {
  CLI::App& group = add_group(app, "plan", "solve for the fastest way to split the work");
  add_plan_auto(group, chosen);
  add_plan_batch(group, chosen);
  add_plan_pipeline(group, chosen);
  add_plan_scale(group, chosen);
}

}  // namespace yoke::cli
