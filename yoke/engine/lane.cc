#include "yoke/engine/lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "yoke/tensor/compat.h"

namespace yoke::engine {

void LaneReport::add(const models::Score& score, double loss_value, std::int64_t worker) {
  loss += loss_value * static_cast<double>(score.samples);
  samples += score.samples;
  correct += std::max<std::int64_t>(score.correct, 0);
  if (!std::isfinite(loss_value) && !bad_worker) bad_worker = worker;
}

at::Generator generator_for(const base::StreamName& name, const tensor::Device& device) {
  return device.make_generator(base::Stream(name).bits64());
}

void forward(models::Network& network, models::Flow& flow, const models::Pass& pass, plan::Precision precision,
             torch::Device device) {
  std::optional<tensor::Autocast> autocast;
  if (precision != plan::Precision::kFp32) {
    autocast.emplace(device.type(), precision == plan::Precision::kBf16 ? torch::kBFloat16 : torch::kHalf);
  }
  network.forward(flow, pass);
}

void sleep_for(base::Duration time) {
  std::this_thread::sleep_for(time);
}

void wait_as_slow_device(double speed, base::Duration computed, const Sleep& sleep) {
  if (speed < 1) sleep(base::from_seconds(base::to_seconds(computed) * (1 / speed - 1)));
}

base::Status attempt(std::int64_t worker, const std::function<base::Status()>& compute) {
  try {
    return compute();
  } catch (const base::Failure& bug) {
    return bug.error();
  } catch (const std::bad_alloc&) {
    return base::infeasible_error(fmt::format(
        "worker {}: out of memory; a smaller local batch (batch.local) or fewer workers at once need less", worker));
  } catch (const std::exception& fault) {
    const std::string_view text = fault.what();
    return base::input_error(fmt::format("worker {}: {}", worker, text.substr(0, text.find('\n'))));
  }
}

}  // namespace yoke::engine
