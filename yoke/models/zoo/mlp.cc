#include <fmt/format.h>

#include "yoke/models/zoo/zoo.h"

namespace yoke::models::zoo {

namespace {

constexpr std::int64_t kMostInputs = 100'000'000;
constexpr std::int64_t kHidden1 = 256;
constexpr std::int64_t kHidden2 = 128;

base::Result<std::int64_t> count_inputs(const ModelOptions& options) {
  if (options.input_shape.empty()) return 28 * 28;
  std::int64_t inputs = 1;
  for (const std::int64_t side : options.input_shape) {
    if (side < 1 || side > kMostInputs / inputs) {
      return base::input_error(
          fmt::format("found samples of shape [{}], expected sides of 1 or more and at most {} numbers a sample",
                      fmt::join(options.input_shape, ", "), kMostInputs),
          {.field = "input_shape"});
    }
    inputs *= side;
  }
  return inputs;
}

base::Result<Architecture> make(const ModelOptions& options) {
  YOKE_CHECK(check_options("mlp", options, Dropout::kHas));
  YOKE_TRY(const std::int64_t inputs, count_inputs(options));
  const double dropout = options.dropout < 0 ? 0 : options.dropout;
  const std::int64_t classes = options.classes;
  return Architecture{
      .name = "mlp",
      .blocks = {chain("fc1", "",
                       [=](Chain& c) { c.flatten().linear("fc1", inputs, kHidden1).relu().dropout(dropout); }),
                 chain("fc2", "", [=](Chain& c) { c.linear("fc2", kHidden1, kHidden2).relu().dropout(dropout); }),
                 chain("fc3", "", [=](Chain& c) { c.linear("fc3", kHidden2, classes); })},
      .loss = cross_entropy};
}

}  // namespace

ModelInfo mlp() {
  return {.name = "mlp", .summary = "three linear layers on samples of any shape", .make = make};
}

}  // namespace yoke::models::zoo
