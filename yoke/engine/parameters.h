// The weights, gradients and buffers of a model in flat storage. Every replica of the network on a device looks at the
// same weights, so another worker costs activations only, and an update of a bucket is at once what all of them see.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/engine/optimizer/optimizer.h"
#include "yoke/models/model.h"
#include "yoke/plan/buckets.h"
#include "yoke/plan/job.h"

namespace yoke::engine {

/// The bytes of a contiguous tensor. Precondition: on the CPU.
std::span<std::byte> bytes_of(const torch::Tensor& tensor);
std::span<float> floats_of(const torch::Tensor& tensor);

/// Where a parameter lies.
struct Place {
  std::size_t bucket = 0;
  std::size_t slot = 0;  // within the bucket, in backward order
};

/// Not copyable: replicas point into it.
class Parameters {
 public:
  /// Takes the values of `network`, which looks at the flat storage from then on. No bucket reaches across one of
  /// `cuts`: blocks, ascending, at which another segment of the model begins, whose gradients are reduced among other
  /// ranks. Fails for parameters that are not f32.
  static base::Result<std::unique_ptr<Parameters>> make(models::Network& network, const plan::OptimizerSpec& optimizer,
                                                        torch::Device device,
                                                        const std::vector<std::size_t>& cuts = {});
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  /// In backward order.
  const std::vector<FlatBucket>& buckets() const { return buckets_; }
  std::size_t count() const { return names_.size(); }
  const std::string& name(std::size_t parameter) const { return names_[parameter]; }
  /// The block it belongs to, as an index into the architecture.
  std::size_t block(std::size_t parameter) const { return blocks_[parameter]; }
  Place place(std::size_t parameter) const { return places_[parameter]; }
  /// Of the parameter's own shape, within the flat storage.
  const torch::Tensor& weight(std::size_t parameter) const { return weights_[parameter]; }
  const torch::Tensor& gradient(std::size_t parameter) const { return gradients_[parameter]; }

  /// From now on the weights are in other storage, with the same values. Networks that have adopted them before keep
  /// the old one: a version of the weights that stays as it is.
  void renew_weights();

  /// Lets another network of the same architecture look at these weights. Its buffers stay its own.
  void adopt(models::Network& network) const;

  /// The buffers that training goes on with: those of worker 0 (running statistics of batch norms).
  const std::vector<models::NamedTensor>& buffers() const { return buffers_; }
  /// u8: those of blocks `first` to `last` - 1 in one piece, sharing storage.
  torch::Tensor flat_buffers(std::size_t first, std::size_t last) const;
  std::int64_t buffer_bytes() const { return flat_buffers_.numel(); }
  void copy_buffers_to(models::Network& network) const;
  void copy_buffers_from(models::Network& network);

  /// Parameters and buffers by name, sharing storage.
  std::vector<std::pair<std::string, torch::Tensor>> named() const;

 private:
  Parameters() = default;

  std::vector<FlatBucket> buckets_;
  std::vector<std::string> names_;
  std::vector<std::size_t> blocks_;
  std::vector<Place> places_;
  std::vector<torch::Tensor> weights_;
  std::vector<torch::Tensor> gradients_;
  std::vector<models::NamedTensor> buffers_;
  std::vector<std::int64_t> buffer_begins_;  // in the flat storage
  torch::Tensor flat_buffers_;               // u8
};

}  // namespace yoke::engine
