#include "yoke/cli/run/metrics_board.h"

#include <fmt/format.h>

#include <cmath>

namespace yoke::cli {
namespace {

std::string label_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

void MetricsBoard::put(const engine::StepReport& step) {
  base::MutexLock lock(mutex_);
  step_ = step;
}

void MetricsBoard::put(const engine::Event& event) {
  base::MutexLock lock(mutex_);
  if (event.kind == "checkpoint") ++checkpoints_;
  for (const auto& [name, value] : event.values) {
    if (name == "test_accuracy") test_accuracy_ = value;
  }
}

std::string MetricsBoard::to_text() const {
  base::MutexLock lock(mutex_);
  std::string text;
  const std::string label = fmt::format("{{job=\"{}\"}}", label_text(job_));
  const auto metric = [&](std::string_view name, std::string_view type, std::string_view help, double value) {
    text += fmt::format("# HELP yoke_{0} {1}\n# TYPE yoke_{0} {2}\nyoke_{0}{3} {4}\n", name, help, type, label,
                        number_text(value));
  };
  metric("ranks", "gauge", "Processes that train.", ranks_);
  metric("checkpoints_total", "counter", "Checkpoints written since the start.", static_cast<double>(checkpoints_));
  if (step_) {
    metric("step", "gauge", "Updates made so far.", static_cast<double>(step_->step));
    metric("steps_planned", "gauge", "Updates that the training will have; 0 when not known.",
           static_cast<double>(step_->total_steps));
    metric("epoch", "gauge", "The epoch of the latest step.", static_cast<double>(step_->epoch));
    metric("samples_total", "counter", "Samples used so far, in all epochs.",
           static_cast<double>(step_->total_samples));
    metric("loss", "gauge", "Training loss of the latest step.", step_->loss);
    metric("learning_rate", "gauge", "Learning rate of the latest step.", step_->lr);
    metric("samples_per_second", "gauge", "Speed of the latest step.", step_->samples_per_second);
    metric("step_seconds", "gauge", "Duration of the latest step.", step_->step_seconds);
    metric("global_batch", "gauge", "Samples of one update.", static_cast<double>(step_->gbs));
    metric("local_batch", "gauge", "Samples of one virtual worker.", static_cast<double>(step_->lbs));
    metric("workers", "gauge", "Virtual workers of one update.", static_cast<double>(step_->workers));
  }
  if (test_accuracy_) metric("test_accuracy", "gauge", "Accuracy on the test part, from 0 to 1.", *test_accuracy_);
  return text;
}

}  // namespace yoke::cli
