// The latest figures of a run, as text that Prometheus scrapes.
#pragma once

#include <optional>
#include <string>

#include "yoke/base/mutex.h"
#include "yoke/engine/rank.h"

namespace yoke::cli {

/// Any thread may put and read.
class MetricsBoard {
 public:
  MetricsBoard(std::string job, int ranks) : job_(std::move(job)), ranks_(ranks) {}

  void put(const engine::StepReport& step);
  void put(const engine::Event& event);
  /// The text format 0.0.4, every metric with its help and type.
  std::string to_text() const;

 private:
  const std::string job_;
  const int ranks_;
  mutable base::Mutex mutex_;
  std::optional<engine::StepReport> step_ YOKE_GUARDED_BY(mutex_);
  std::optional<double> test_accuracy_ YOKE_GUARDED_BY(mutex_);
  std::int64_t checkpoints_ YOKE_GUARDED_BY(mutex_) = 0;
};

}  // namespace yoke::cli
