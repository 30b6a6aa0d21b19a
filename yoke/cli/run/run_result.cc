#include "yoke/cli/run/run_result.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "yoke/base/document.h"
#include "yoke/base/files.h"
#include "yoke/base/units.h"
#include "yoke/cli/plan.h"

namespace yoke::cli {
namespace {

using base::Json;
using base::View;

std::optional<double> find_number(View& view, const std::string& key) {
  auto field = view.find(key);
  return field ? std::optional(field->number()) : std::nullopt;
}

}  // namespace

std::optional<double> prediction_error(const engine::RankResult& result) {
  if (result.predicted_step_seconds <= 0 || result.measured_step_seconds <= 0) return std::nullopt;
  return result.predicted_step_seconds / result.measured_step_seconds - 1;
}

Json to_json(const RunResult& result) {
  const engine::RankResult& rank = result.rank;
  Json json{{"steps", rank.steps},
            {"samples", rank.samples},
            {"epochs", rank.epochs},
            {"wall_seconds", result.wall_seconds},
            {"train_loss", rank.train_loss}};
  if (rank.test_loss) json["test_loss"] = *rank.test_loss;
  if (rank.test_accuracy) json["test_accuracy"] = *rank.test_accuracy;
  if (result.samples_per_second) json["samples_per_second"] = *result.samples_per_second;
  json["predicted_step_seconds"] = rank.predicted_step_seconds;
  json["measured_step_seconds"] = rank.measured_step_seconds;
  if (const auto error = prediction_error(rank)) json["prediction_error"] = *error;
  if (result.equal_split_step_seconds) json["equal_split_step_seconds"] = *result.equal_split_step_seconds;
  if (result.plan_source != profile::Source::kMeasured) json["plan_source"] = profile::to_string(result.plan_source);
  json["weights_sha256"] = rank.weights_sha256;
  json["recoveries"] = rank.recoveries;
  json["skipped_samples"] = rank.skipped_samples;
  return json;
}

base::Result<RunResult> parse_result(std::string_view json, const std::string& file) {
  YOKE_TRY(const base::Document document, base::parse_json(json, file));
  base::Reader reader(document);
  View root = reader.root();
  RunResult result;
  engine::RankResult& rank = result.rank;
  rank.steps = root.field("steps").integer();
  rank.samples = root.field("samples").integer();
  rank.epochs = root.field("epochs").number();
  result.wall_seconds = root.field("wall_seconds").number();
  rank.train_loss = find_number(root, "train_loss").value_or(std::numeric_limits<double>::quiet_NaN());
  rank.test_loss = find_number(root, "test_loss");
  rank.test_accuracy = find_number(root, "test_accuracy");
  result.samples_per_second = find_number(root, "samples_per_second");
  rank.predicted_step_seconds = root.field("predicted_step_seconds").number();
  rank.measured_step_seconds = root.field("measured_step_seconds").number();
  result.equal_split_step_seconds = find_number(root, "equal_split_step_seconds");
  if (auto source = root.find("plan_source")) {
    result.plan_source = static_cast<profile::Source>(source->one_of({"measured", "estimate"}));
  }
  rank.weights_sha256 = root.field("weights_sha256").text();
  rank.recoveries = root.field("recoveries").integer();
  rank.skipped_samples = root.field("skipped_samples").integer();
  if (!reader.ok()) return reader.error();
  return result;
}

base::Result<RunResult> load_result(const std::string& path) {
  YOKE_TRY(const std::string text, base::read_file(path));
  return parse_result(text, path);
}

base::Status save_result(const std::string& path, const RunResult& result) {
  return base::publish_file(path, to_json(result).dump(2) + "\n");
}

std::string summarize(const RunResult& result, const std::string& folder) {
  const engine::RankResult& rank = result.rank;
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<15}{}\n", name, value);
  };
  line("trained", fmt::format("{} steps, {} samples, {:.4g} epochs in {}", rank.steps, rank.samples, rank.epochs,
                              base::format_seconds(result.wall_seconds)));
  line("train loss", fmt::format("{:.4g}", rank.train_loss));
  if (rank.test_accuracy) line("test accuracy", fmt::format("{:.2f}%", *rank.test_accuracy * 100));
  if (result.samples_per_second) line("speed", fmt::format("{:.1f} samples/s", *result.samples_per_second));
  if (rank.measured_step_seconds > 0) {
    std::string step = base::format_seconds(rank.measured_step_seconds) + " measured";
    if (const auto error = prediction_error(rank)) {
      step += fmt::format(", {} predicted ({:.1f}% {})", base::format_seconds(rank.predicted_step_seconds),
                          std::abs(*error) * 100, *error < 0 ? "too short" : "too long");
    }
    line("step", step);
  }
  if (result.equal_split_step_seconds && rank.predicted_step_seconds > 0) {
    line("plan", fmt::format("{:.2f} times as fast as the equal split (both predicted)",
                             *result.equal_split_step_seconds / rank.predicted_step_seconds));
  }
  if (result.plan_source == profile::Source::kEstimate) line("plan", std::string(kFromEstimates));
  if (rank.recoveries > 0) line("recoveries", std::to_string(rank.recoveries));
  if (rank.skipped_samples > 0) line("skipped", fmt::format("{} samples", rank.skipped_samples));
  line("run folder", folder);
  return text;
}

}  // namespace yoke::cli
