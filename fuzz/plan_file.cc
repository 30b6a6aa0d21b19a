#include "fuzz/fuzz.h"
#include "yoke/plan/drawing.h"
#include "yoke/plan/plan.h"
#include "yoke/plan/schedule.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::check_round_trip(text, plan::parse_plan, plan::to_json);
  const auto plan = plan::parse_plan(text, "input");
  if (!plan.ok()) return 0;
  plan::draw_step(*plan);
  // Every plan of a bearable size has a schedule that holds, or a reason why not.
  if (plan->workers() > 500 || plan->devices().size() > 100) return 0;
  const auto schedule = plan::make_schedule(*plan, {.steps = 2});
  if (schedule.ok()) plan::check(*schedule).value();
  return 0;
}
