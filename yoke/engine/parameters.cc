#include "yoke/engine/parameters.h"

#include <fmt/format.h>

namespace yoke::engine {

std::span<std::byte> bytes_of(const torch::Tensor& tensor) {
  base::require(tensor.is_contiguous() && tensor.device().is_cpu(), "bytes of a tensor that is not plain memory");
  return {static_cast<std::byte*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.nbytes())};
}

std::span<float> floats_of(const torch::Tensor& tensor) {
  base::require(tensor.is_contiguous() && tensor.device().is_cpu(), "floats of a tensor that is not plain memory");
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

base::Result<std::unique_ptr<Parameters>> Parameters::make(models::Network& network,
                                                           const plan::OptimizerSpec& optimizer, torch::Device device) {
  const torch::NoGradGuard no_grad;
  auto self = std::unique_ptr<Parameters>(new Parameters);
  const auto parameters = network.parameters();
  std::vector<plan::Parameter> sizes;
  for (const auto& parameter : parameters) {
    if (parameter.tensor.scalar_type() != torch::kFloat) {
      return base::input_error(
          fmt::format("parameter `{}` is {}; expected float32 (precision is chosen in the job file)", parameter.name,
                      c10::toString(parameter.tensor.scalar_type())));
    }
    self->names_.push_back(parameter.name);
    sizes.push_back({.name = parameter.name, .elements = parameter.tensor.numel()});
  }
  YOKE_TRY(const auto cut, plan::cut_into_buckets(sizes));

  self->places_.resize(parameters.size());
  self->weights_.resize(parameters.size());
  self->gradients_.resize(parameters.size());
  const auto options = torch::TensorOptions().dtype(torch::kFloat).device(device);
  for (const auto& bucket : cut) {
    FlatBucket flat{.weights = torch::zeros({bucket.elements}, options),
                    .gradients = torch::zeros({bucket.elements}, options)};
    for (const auto& slot : bucket.slots) {
      const auto& parameter = parameters[slot.parameter];
      self->places_[slot.parameter] = {.bucket = self->buckets_.size(), .slot = flat.segments.size()};
      const auto view = [&](const torch::Tensor& whole) {
        return whole.narrow(0, slot.offset, slot.elements).view(parameter.tensor.sizes());
      };
      self->weights_[slot.parameter] = view(flat.weights);
      self->gradients_[slot.parameter] = view(flat.gradients);
      self->weights_[slot.parameter].copy_(parameter.tensor);
      flat.segments.push_back({.name = parameter.name,
                               .begin = slot.offset,
                               .count = slot.elements,
                               .decay = decays(optimizer, parameter.name, parameter.tensor.dim())});
    }
    self->buckets_.push_back(std::move(flat));
  }

  constexpr std::int64_t kAlign = 64;
  const auto buffers = network.buffers();
  std::int64_t bytes = 0;
  std::vector<std::int64_t> begins;
  for (const auto& buffer : buffers) {
    begins.push_back(bytes);
    bytes += (static_cast<std::int64_t>(buffer.tensor.nbytes()) + kAlign - 1) / kAlign * kAlign;
  }
  self->flat_buffers_ = torch::zeros({bytes}, torch::TensorOptions().dtype(torch::kByte).device(device));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto& tensor = buffers[i].tensor;
    auto view = self->flat_buffers_.narrow(0, begins[i], static_cast<std::int64_t>(tensor.nbytes()))
                    .view(tensor.scalar_type())
                    .view(tensor.sizes());
    view.copy_(tensor);
    self->buffers_.push_back({.name = buffers[i].name, .tensor = view, .block = buffers[i].block});
  }
  self->adopt(network);
  return self;
}

void Parameters::adopt(models::Network& network) const {
  const auto parameters = network.parameters();
  base::require(parameters.size() == names_.size(), "a replica has other parameters than the model");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto tensor = parameters[i].tensor;
    base::require(parameters[i].name == names_[i], "a replica names its parameters differently");
    tensor.set_data(weights_[i]);
  }
}

void Parameters::copy_buffers_to(models::Network& network) const {
  const torch::NoGradGuard no_grad;
  const auto theirs = network.buffers();
  for (std::size_t i = 0; i < buffers_.size(); ++i) theirs[i].tensor.copy_(buffers_[i].tensor);
}

void Parameters::copy_buffers_from(models::Network& network) {
  const torch::NoGradGuard no_grad;
  const auto theirs = network.buffers();
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].tensor.copy_(theirs[i].tensor);
}

std::vector<std::pair<std::string, torch::Tensor>> Parameters::named() const {
  std::vector<std::pair<std::string, torch::Tensor>> all;
  for (std::size_t i = 0; i < names_.size(); ++i) all.emplace_back(names_[i], weights_[i]);
  for (const auto& buffer : buffers_) all.emplace_back(buffer.name, buffer.tensor);
  return all;
}

}  // namespace yoke::engine
