#include "yoke/comm/decorate/by_place.h"

namespace yoke::comm {
namespace {

class BackendByPlace final : public Backend {
 public:
  BackendByPlace(std::unique_ptr<Backend> host, std::unique_ptr<Backend> device)
      : host_(std::move(host)), device_(std::move(device)) {}

  std::string_view name() const override { return device_->name(); }
  bool takes_device_memory() const override { return true; }

  Outcome run(const Op& op, std::uint64_t sequence, const Call& call) override {
    return reaches(op).run(op, sequence, call);
  }
  std::unique_ptr<Transfer> start(const Op& op) override { return reaches(op).start(op); }
  void interrupt() override {
    host_->interrupt();
    device_->interrupt();
  }

 private:
  Backend& reaches(const Op& op) const { return op.on_device ? *device_ : *host_; }

  const std::unique_ptr<Backend> host_;
  const std::unique_ptr<Backend> device_;
};

}  // namespace

std::unique_ptr<Backend> make_backend_by_place(std::unique_ptr<Backend> host, std::unique_ptr<Backend> device) {
  return std::make_unique<BackendByPlace>(std::move(host), std::move(device));
}

}  // namespace yoke::comm
