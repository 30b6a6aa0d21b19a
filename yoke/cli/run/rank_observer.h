// Between the engine and everybody who wants to know: the run folder, the launcher, the metrics page.
#pragma once

#include <optional>

#include "yoke/base/log.h"
#include "yoke/cli/launch/reports.h"
#include "yoke/cli/launch/stop_signals.h"
#include "yoke/cli/run/metrics_board.h"
#include "yoke/cli/run/recorder.h"
#include "yoke/engine/rank.h"

namespace yoke::cli {

/// Where a rank's reports go; what is not set is not told. All must outlive the observer.
struct RankAudience {
  Recorder* recorder = nullptr;  // rank 0
  EventLog* events = nullptr;    // other ranks
  const ReportSender* launcher = nullptr;
  MetricsBoard* board = nullptr;
};

/// When the run folder can no longer be written to (a full disk), it asks for the end of training, so that what is
/// there stays whole; failure() tells why.
class RankObserver final : public engine::Observer {
 public:
  RankObserver(const RankAudience& audience, const StopSignals& signals, base::Logger log)
      : audience_(audience), signals_(signals), log_(std::move(log)) {}

  void on_plan(const plan::Plan& plan) override;
  void on_step(const engine::StepReport& report) override;
  void on_event(const engine::Event& event) override;
  bool stop_requested() override { return failure_.has_value() || signals_.count() > 0; }

  const std::optional<base::Error>& failure() const { return failure_; }

 private:
  void keep(const base::Status& status);

  const RankAudience audience_;
  const StopSignals& signals_;
  const base::Logger log_;
  std::optional<base::Error> failure_;
};

}  // namespace yoke::cli
