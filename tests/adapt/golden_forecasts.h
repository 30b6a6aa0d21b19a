// Reads the recorded forecasts of JABAS (golden/forecast.json in the shared data) into plain values.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "yoke/adapt/forecaster.h"
#include "yoke/adapt/gaussian_process.h"
#include "yoke/base/document.h"
#include "yoke/base/files.h"

namespace yoke::adapt::golden {

inline const std::string kForecasts = std::string(yoke::testing::kSharedData) + "/golden/forecast.json";
inline const std::string kTrainer = std::string(yoke::testing::kSharedData) + "/golden/trainer.json";

/// A posterior at fixed hyper-parameters.
struct Process {
  PeriodicKernel kernel;
  double log_likelihood = 0;
  double condition_number = 0;
  /// By how much a plain Cholesky in numpy differed from the original: the digits that the problem itself loses.
  double sensitivity = 0;
  std::vector<double> predictions;
};

struct Smoothing {
  double alpha = 0;
  double initial_level = 0;
  double squared_errors = 0;
  double level = 0;
};

struct Case {
  std::string name;
  std::vector<BatchPoint> history;             // all epochs
  std::vector<double> epoch_x, epoch_y;        // the last epoch
  std::vector<double> y;                       // all epochs
  std::vector<std::int64_t> steps;             // asked for
  std::vector<Process> fixed;                  // at hyper-parameters chosen beforehand
  std::vector<Process> fitted;                 // at those that one random seed led to
  std::vector<std::vector<double>> ensembles;  // forecasts, one per random seed; none where the original failed
  std::optional<Smoothing> smoothing;          // absent where the original failed
};

inline std::vector<double> numbers(base::View list) {
  std::vector<double> values;
  for (base::View item : list.items()) values.push_back(item.number());
  return values;
}

inline Process read_process(base::View view) {
  return {.kernel = {.constant = view.field("constant").number(),
                     .length_scale = view.field("length_scale").number(),
                     .period = view.field("periodicity").number()},
          .log_likelihood = view.field("lml").number(),
          .condition_number = view.field("condition_number").number(),
          .sensitivity = view.field("numpy_recompute_max_rel_diff").number(),
          .predictions = numbers(view.field("pred"))};
}

inline Case read_case(base::View view) {
  Case result{.name = view.field("name").text()};
  for (base::View epoch : view.field("epochs").items()) {
    result.epoch_x = numbers(epoch.field("x"));
    result.epoch_y = numbers(epoch.field("y"));
    for (std::size_t i = 0; i < result.epoch_x.size(); ++i) {
      result.history.push_back(
          {static_cast<std::int64_t>(result.epoch_x[i]), static_cast<std::int64_t>(result.epoch_y[i])});
      result.y.push_back(result.epoch_y[i]);
    }
  }
  for (const double step : numbers(view.field("x_pred"))) result.steps.push_back(static_cast<std::int64_t>(step));
  result.fixed.push_back(read_process(view.field("gp_fixed_initial_kernel")));
  for (base::View kernel : view.field("gp_fixed_other_kernels").items()) result.fixed.push_back(read_process(kernel));
  for (base::View run : view.field("runs").items()) {
    if (run.has("error")) continue;
    result.fitted.push_back(read_process(run.field("gp")));
    result.ensembles.push_back(numbers(run.field("ensemble_pred")));
  }
  base::View smoothing = view.field("ets");
  if (!smoothing.has("error")) {
    result.smoothing = Smoothing{.alpha = smoothing.field("smoothing_level").number(),
                                 .initial_level = smoothing.field("initial_level").number(),
                                 .squared_errors = smoothing.field("sse").number(),
                                 .level = numbers(smoothing.field("pred")).front()};
  }
  return result;
}

/// Throws, and so fails the test, when the file is there but is not what this reader expects.
inline std::vector<Case> read_cases() {
  const base::Document document = base::load_document(kForecasts).value();
  base::Reader reader(document);
  std::vector<Case> cases;
  for (base::View view : reader.root().field("cases").items()) cases.push_back(read_case(view));
  if (!reader.ok()) throw base::Failure(reader.error());
  return cases;
}

}  // namespace yoke::adapt::golden

#define YOKE_SKIP_WITHOUT(path) \
  if (!yoke::base::is_file(path)) GTEST_SKIP() << "no reference data: " << (path) << " is absent"
