#include "yoke/engine/holding.h"

#include <algorithm>
#include <cstring>

namespace yoke::engine {

base::Result<std::unique_ptr<Holding>> Holding::make(const models::Architecture& architecture, const plan::Job& job,
                                                     const BlockRange& range, tensor::Device& device) {
  auto self = std::unique_ptr<Holding>(new Holding);
  const auto entered = device.enter(0, 1);
  models::Network network(architecture,
                          {.seed = static_cast<std::uint64_t>(job.seed), .first = range.first, .last = range.last});
  self->range_ = range;
  YOKE_TRY(self->parameters_, Parameters::make(network, job.optimizer, device.where(), range.cuts));
  self->gradients_ = std::make_unique<GradientSum>(*self->parameters_, device, job.reproducible);
  self->optimizer_ = make_optimizer(job.optimizer, self->parameters_->buckets());
  return self;
}

NamedTensors Holding::weights_of(std::size_t first, std::size_t last) const {
  NamedTensors all;
  for (std::size_t i = 0; i < parameters_->count(); ++i) {
    const std::size_t block = parameters_->block(i);
    if (block >= first && block < last) all.emplace_back(parameters_->name(i), parameters_->weight(i));
  }
  for (const auto& buffer : parameters_->buffers()) {
    if (buffer.block >= first && buffer.block < last) all.emplace_back(buffer.name, buffer.tensor);
  }
  return all;
}

NamedTensors Holding::state_of(std::size_t first, std::size_t last) const {
  NamedTensors all;
  for (std::size_t i = 0; i < parameters_->count(); ++i) {
    const std::size_t block = parameters_->block(i);
    if (block < first || block >= last) continue;
    const Place place = parameters_->place(i);
    const auto& segment = parameters_->buckets()[place.bucket].segments[place.slot];
    for (const auto& [name, flat] : optimizer_->state(place.bucket)) {
      all.emplace_back(name + "." + segment.name, flat.narrow(0, segment.begin, segment.count));
    }
  }
  return all;
}

torch::Tensor Holding::pack(std::size_t block) const {
  std::vector<torch::Tensor> pieces;
  for (const auto& part : {weights(block), state(block)}) {
    for (const auto& [name, tensor] : part) {
      pieces.push_back(tensor.detach().cpu().contiguous().flatten().view(torch::kByte));
    }
  }
  return pieces.empty() ? torch::empty({0}, torch::kByte) : torch::cat(pieces);
}

void Holding::unpack(std::size_t block, const torch::Tensor& bytes) {
  const torch::NoGradGuard no_grad;
  std::int64_t begin = 0;
  for (const auto& part : {weights(block), state(block)}) {
    for (const auto& [name, tensor] : part) {
      const auto count = static_cast<std::int64_t>(tensor.nbytes());
      // A piece may begin anywhere: a tensor of another type may not look at it there.
      auto piece = bytes.narrow(0, begin, count).clone();
      tensor.copy_(piece.view(tensor.scalar_type()).view(tensor.sizes()));
      begin += count;
    }
  }
  base::require(begin == bytes.numel(), "the state of a block has another size here");
}

std::int64_t Holding::packed_bytes(std::size_t block) const {
  std::int64_t bytes = 0;
  for (const auto& part : {weights(block), state(block)}) {
    for (const auto& [name, tensor] : part) bytes += static_cast<std::int64_t>(tensor.nbytes());
  }
  return bytes;
}

std::int64_t Holding::fingerprint(std::size_t block) const {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const auto& [name, tensor] : weights(block)) {
    const auto host = tensor.cpu().contiguous();
    const auto bytes = bytes_of(host);
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, std::min(sizeof(word), bytes.size() - i));
      hash = (hash ^ word) * 0x100000001b3U;
    }
  }
  return hash == 0 ? 1 : static_cast<std::int64_t>(hash);
}

StateBytes Holding::bytes() const {
  StateBytes bytes{.buffers = parameters_->buffer_bytes()};
  for (std::size_t i = 0; i < parameters_->buckets().size(); ++i) {
    bytes.weights += static_cast<std::int64_t>(parameters_->buckets()[i].weights.nbytes());
    bytes.gradients += static_cast<std::int64_t>(parameters_->buckets()[i].gradients.nbytes());
    for (const auto& [name, tensor] : optimizer_->state(i)) {
      bytes.optimizer += static_cast<std::int64_t>(tensor.nbytes());
    }
  }
  return bytes;
}

}  // namespace yoke::engine
