// How far `yoke profile estimate` is from profiles that were measured on real GPUs, in ../shared/data:
//   bench_estimate [DATA]
// Prints one JSON object: milliseconds of forward and backward together. Rows that are not `held_out` had a part in
// fitting the constants (docs/profiling-network.md), or are the same measurement made again. Where the data is absent,
// it says so.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <vector>

#include "yoke/base/files.h"
#include "yoke/base/json.h"
#include "yoke/cli/estimate.h"
#include "yoke/plan/import/jabas.h"
#include "yoke/profile/pipedream/graph_text.h"

namespace {

using namespace yoke;

constexpr auto kFp32 = profile::Precision::kFp32;

struct Row {
  std::string source;
  std::string model;
  std::string device;
  int lbs = 0;
  int vsw = 1;
  double estimate_ms = 0;
  double measured_ms = 0;
  bool held_out = true;

  double error() const { return estimate_ms / measured_ms - 1; }
};

template <typename T>
T or_exit(base::Result<T> result) {
  if (result.ok()) return *std::move(result);
  std::cerr << result.error().to_string() << "\n";
  std::exit(base::exit_code(result.error().kind));
}

class Comparison {
 public:
  explicit Comparison(std::string data) : data_(std::move(data)) {}

  /// ResNet-50 as JABAS and IIDP measured it, at every number of workers.
  void batches(const std::string& folder) {
    const auto workspace = or_exit(plan::load_jabas(base::join_path(data_, folder + "/config.json")));
    for (const auto& node : workspace.profiles.nodes) {
      const std::string name = node.device_type.find("V100") != std::string::npos ? "v100" : "p100";
      const auto device = or_exit(profile::find_device(name));
      const auto& model = count("resnet50");
      for (const auto& [lbs, measured] : node.by_lbs) {
        for (const auto& sample : measured.compute) {
          const auto guess = cli::estimate_sample(model, lbs, sample.vsw, device, kFp32);
          rows.push_back({.source = folder,
                          .model = "resnet50",
                          .device = name,
                          .lbs = lbs,
                          .vsw = sample.vsw,
                          .estimate_ms = guess.forward_ms + guess.backward_ms,
                          .measured_ms = sample.forward_ms + sample.backward_ms,
                          .held_out = name != "v100" || sample.vsw > 1});
        }
        if (!measured.max_vsw) continue;
        memory.push_back({{"source", folder},
                          {"device", name},
                          {"lbs", lbs},
                          {"estimate_max_vsw", cli::most_workers(model, lbs, device, kFp32)},
                          {"measured_max_vsw", *measured.max_vsw}});
      }
    }
  }

  /// One minibatch of a V100, as PipeDream measured it layer by layer; the input layer loads data and is left out.
  void graph(const std::string& model, int lbs, bool held_out) {
    const auto graph =
        or_exit(profile::pipedream::load_graph_text(base::join_path(data_, "pipedream/profiles/" + model + ".txt")));
    Row row{.source = "pipedream", .model = model, .device = "v100", .lbs = lbs};
    row.held_out = held_out;
    for (const auto& layer : graph.layers()) {
      if (!layer.description.starts_with("Input")) row.measured_ms += layer.forward_ms + layer.backward_ms;
    }
    const auto guess = cli::estimate_sample(count(model), lbs, 1, or_exit(profile::find_device("v100")), kFp32);
    row.estimate_ms = guess.forward_ms + guess.backward_ms;
    rows.push_back(std::move(row));
  }

  std::vector<Row> rows;
  base::Json memory = base::Json::array();

 private:
  /// Each model once: it takes seconds.
  const models::ModelCount& count(const std::string& model) {
    const auto found = counts_.find(model);
    if (found != counts_.end()) return found->second;
    return counts_.emplace(model, or_exit(models::count_ops({.model = model, .classes = 1000}))).first->second;
  }

  const std::string data_;
  std::map<std::string, models::ModelCount> counts_;
};

/// Absolute errors: their median and the worst.
base::Json summary(const std::vector<Row>& rows, bool held_out) {
  std::vector<double> errors;
  for (const auto& row : rows) {
    if (row.held_out == held_out) errors.push_back(std::abs(row.error()));
  }
  if (errors.empty()) return {};
  std::ranges::sort(errors);
  return {{"rows", errors.size()}, {"median_error", errors[errors.size() / 2]}, {"worst_error", errors.back()}};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string data = argc > 1 ? argv[1] : YOKE_SHARED_DATA;
  if (!base::is_folder(data)) {
    std::cout << base::Json{{"benchmark", "estimate"}, {"absent", "no measured profiles in " + data}}.dump(1) << "\n";
    return 0;
  }
  Comparison comparison(data);
  comparison.batches("jabas-quickstart");
  comparison.batches("iidp-quickstart");
  comparison.graph("vgg16", 128, false);
  comparison.graph("alexnet", 256, true);
  comparison.graph("resnet18", 256, true);
  comparison.graph("resnet50", 128, true);
  comparison.graph("resnet101", 64, true);
  base::Json rows = base::Json::array();
  for (const auto& row : comparison.rows) {
    rows.push_back({{"source", row.source},
                    {"model", row.model},
                    {"device", row.device},
                    {"lbs", row.lbs},
                    {"vsw", row.vsw},
                    {"estimate_ms", row.estimate_ms},
                    {"measured_ms", row.measured_ms},
                    {"error", row.error()},
                    {"held_out", row.held_out}});
  }
  std::cout << base::Json{{"benchmark", "estimate"},
                          {"fitted", summary(comparison.rows, false)},
                          {"held_out", summary(comparison.rows, true)},
                          {"rows", rows},
                          {"memory", comparison.memory}}
                   .dump(1)
            << "\n";
  return 0;
}
