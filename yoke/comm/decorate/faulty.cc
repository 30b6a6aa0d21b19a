#include "yoke/comm/decorate/faulty.h"

#include <signal.h>

#include <atomic>
#include <optional>

#include "yoke/comm/decorate/nap.h"

namespace yoke::comm {
namespace {

/// A message that is held back, or never sent.
class FaultyTransfer final : public Transfer {
 public:
  FaultyTransfer(Backend& inner, const Op& op, Fault fault) : inner_(inner), op_(op), fault_(fault) {}
  Outcome wait(const Call& call) override {
    call.wait_for(op_.peer);
    const bool drop = fault_.kind == Fault::Kind::kDrop;
    const auto end = drop ? base::Instant::max() : call.clock().now() + fault_.delay;
    if (auto trouble = nap_until(end, op_.peer, call)) return trouble;
    transfer_ = inner_.start(op_);
    return transfer_->wait(call);
  }

 private:
  Backend& inner_;
  const Op op_;
  const Fault fault_;
  std::unique_ptr<Transfer> transfer_;
};

class FaultyBackend final : public Backend {
 public:
  FaultyBackend(std::unique_ptr<Backend> inner, Fault fault) : inner_(std::move(inner)), fault_(fault) {}

  std::string_view name() const override { return inner_->name(); }
  bool takes_device_memory() const override { return inner_->takes_device_memory(); }
  void interrupt() override { inner_->interrupt(); }

  Outcome run(const Op& op, std::uint64_t sequence, const Call& call) override {
    if (strikes()) {
      const bool drop = fault_.kind == Fault::Kind::kDrop;
      if (auto trouble = nap_until(drop ? base::Instant::max() : call.clock().now() + fault_.delay, -1, call)) {
        return trouble;
      }
    }
    return inner_->run(op, sequence, call);
  }

  std::unique_ptr<Transfer> start(const Op& op) override {
    if (!strikes()) return inner_->start(op);
    return std::make_unique<FaultyTransfer>(*inner_, op, fault_);
  }

 private:
  bool strikes() {
    const bool now = calls_.fetch_add(1) + 1 == fault_.at_call;
    if (now && fault_.kind == Fault::Kind::kDie) ::raise(SIGKILL);
    return now;
  }

  const std::unique_ptr<Backend> inner_;
  const Fault fault_;
  std::atomic<std::uint64_t> calls_{0};
};

}  // namespace

std::unique_ptr<Backend> make_faulty_backend(std::unique_ptr<Backend> inner, Fault fault) {
  return std::make_unique<FaultyBackend>(std::move(inner), fault);
}

}  // namespace yoke::comm
