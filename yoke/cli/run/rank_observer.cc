#include "yoke/cli/run/rank_observer.h"

namespace yoke::cli {

void RankObserver::keep(const base::Status& status) {
  if (status.ok() || failure_) return;
  failure_ = status.error();
  log_.error("{}; training ends with the next step", failure_->to_string());
}

void RankObserver::on_plan(const plan::Plan& plan) {
  if (audience_.recorder != nullptr) keep(audience_.recorder->plan(plan));
}

void RankObserver::on_step(const engine::StepReport& report) {
  if (audience_.recorder != nullptr) keep(audience_.recorder->step(report));
  if (audience_.launcher != nullptr) audience_.launcher->send(report);
  if (audience_.board != nullptr) audience_.board->put(report);
  log_.debug("step {}: loss {:.5g}, {:.1f} samples/s", report.step, report.loss, report.samples_per_second);
}

void RankObserver::on_event(const engine::Event& event) {
  if (audience_.recorder != nullptr) keep(audience_.recorder->event(event));
  if (audience_.events != nullptr) keep(audience_.events->add(event));
  if (audience_.launcher != nullptr) audience_.launcher->send(event);
  if (audience_.board != nullptr) audience_.board->put(event);
  log_.info("step {}: {}: {}", event.step, event.kind, event.detail);
}

}  // namespace yoke::cli
