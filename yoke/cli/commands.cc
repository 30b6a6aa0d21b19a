// What `yoke --help` lists, in this order.
#include "yoke/cli/command.h"

namespace yoke::cli {

void add_commands(CLI::App& app, Action& chosen) {
  add_doctor(app, chosen);
  add_profile(app, chosen);
  add_plan(app, chosen);
  add_explain(app, chosen);
  add_simulate(app, chosen);
  add_run(app, chosen);
  add_train(app, chosen);
  add_import(app, chosen);
}

}  // namespace yoke::cli
