#include "fuzz/fuzz.h"
#include "yoke/plan/drawing.h"
#include "yoke/plan/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::check_round_trip(text, plan::parse_plan, plan::to_json);
  const auto plan = plan::parse_plan(text, "input");
  if (plan.ok()) plan::draw_step(*plan);
  return 0;
}
