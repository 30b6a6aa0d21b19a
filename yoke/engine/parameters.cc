#include "yoke/engine/parameters.h"

#include <fmt/format.h>

#include <algorithm>

namespace yoke::engine {
namespace {

/// Buckets in backward order over all parameters, none across a cut.
base::Result<std::vector<plan::Bucket>> cut_between(const std::vector<plan::Parameter>& sizes,
                                                    const std::vector<std::size_t>& blocks,
                                                    const std::vector<std::size_t>& cuts) {
  std::vector<plan::Bucket> all;
  std::size_t end = sizes.size();
  while (end > 0) {
    // The segment of the last parameter that is left begins at the last cut not after its block.
    const auto beyond = std::ranges::upper_bound(cuts, blocks[end - 1]);
    const std::size_t first_block = beyond == cuts.begin() ? 0 : *(beyond - 1);
    std::size_t begin = end;
    while (begin > 0 && blocks[begin - 1] >= first_block) --begin;
    YOKE_TRY(auto buckets, plan::cut_into_buckets(std::span(sizes).subspan(begin, end - begin)));
    for (auto& bucket : buckets) {
      for (auto& slot : bucket.slots) slot.parameter += begin;
      all.push_back(std::move(bucket));
    }
    end = begin;
  }
  return all;
}

}  // namespace

std::span<std::byte> bytes_of(const torch::Tensor& tensor) {
  base::require(tensor.is_contiguous() && tensor.device().is_cpu(), "bytes of a tensor that is not plain memory");
  return {static_cast<std::byte*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.nbytes())};
}

std::span<float> floats_of(const torch::Tensor& tensor) {
  base::require(tensor.is_contiguous() && tensor.device().is_cpu(), "floats of a tensor that is not plain memory");
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

base::Result<std::unique_ptr<Parameters>> Parameters::make(models::Network& network,
                                                           const plan::OptimizerSpec& optimizer, torch::Device device,
                                                           const std::vector<std::size_t>& cuts) {
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
    self->blocks_.push_back(parameter.block);
    sizes.push_back({.name = parameter.name, .elements = parameter.tensor.numel()});
  }
  YOKE_TRY(const auto cut, cut_between(sizes, self->blocks_, cuts));

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
  for (const auto& buffer : buffers) {
    self->buffer_begins_.push_back(bytes);
    bytes += (static_cast<std::int64_t>(buffer.tensor.nbytes()) + kAlign - 1) / kAlign * kAlign;
  }
  self->flat_buffers_ = torch::zeros({bytes}, torch::TensorOptions().dtype(torch::kByte).device(device));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto& tensor = buffers[i].tensor;
    auto view = self->flat_buffers_.narrow(0, self->buffer_begins_[i], static_cast<std::int64_t>(tensor.nbytes()))
                    .view(tensor.scalar_type())
                    .view(tensor.sizes());
    view.copy_(tensor);
    self->buffers_.push_back({.name = buffers[i].name, .tensor = view, .block = buffers[i].block});
  }
  self->adopt(network);
  return self;
}

torch::Tensor Parameters::flat_buffers(std::size_t first, std::size_t last) const {
  const auto begin_of = [this](std::size_t block) {
    const auto found = std::ranges::find_if(buffers_, [&](const auto& buffer) { return buffer.block >= block; });
    return found == buffers_.end() ? flat_buffers_.numel()
                                   : buffer_begins_[static_cast<std::size_t>(found - buffers_.begin())];
  };
  return flat_buffers_.narrow(0, begin_of(first), begin_of(last) - begin_of(first));
}

void Parameters::renew_weights() {
  const torch::NoGradGuard no_grad;
  // The optimizer has the same tensors, and so the new storage too.
  for (auto& bucket : buckets_) bucket.weights.set_data(bucket.weights.clone());
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const FlatBucket& bucket = buckets_[places_[i].bucket];
    const auto& segment = bucket.segments[places_[i].slot];
    weights_[i] = bucket.weights.narrow(0, segment.begin, segment.count).view(weights_[i].sizes());
  }
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
  // data(): workers whose backward pass is still to come have seen these buffers. They do not need what was in them, but
  // autograd would take the change for a fault.
  for (std::size_t i = 0; i < buffers_.size(); ++i) theirs[i].tensor.data().copy_(buffers_[i].tensor);
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
