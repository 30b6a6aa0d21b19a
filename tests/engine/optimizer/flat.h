// Parameters laid out in two flat buckets with gaps, as the engine does it, for the tests of optimizers.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "yoke/engine/optimizer/optimizer.h"

namespace yoke::engine {

struct FlatParameter {
  std::string name;
  std::int64_t dimensions = 1;
  std::int64_t count = 0;
};

/// Even parameters are in the first bucket, odd ones in the second; each begins at a multiple of 16 elements.
class FlatModel {
 public:
  FlatModel(const plan::OptimizerSpec& spec, const std::vector<FlatParameter>& parameters) : buckets_(2) {
    std::int64_t ends[2] = {0, 0};
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& parameter = parameters[i];
      auto& end = ends[i % 2];
      buckets_[i % 2].segments.push_back({.name = parameter.name,
                                          .begin = end,
                                          .count = parameter.count,
                                          .decay = decays(spec, parameter.name, parameter.dimensions)});
      end = (end + parameter.count + 31) / 16 * 16;  // one whole gap at least
      count_ += parameter.count;
    }
    for (std::size_t i = 0; i < 2; ++i) {
      buckets_[i].weights = torch::zeros({ends[i]});
      buckets_[i].gradients = torch::zeros({ends[i]});
    }
  }

  const std::vector<FlatBucket>& buckets() const { return buckets_; }
  std::int64_t count() const { return count_; }

  void set_weights(const float* values) { scatter(values, 1, &FlatBucket::weights); }
  /// The buckets get `factor` times the values: a sum over workers.
  void set_gradients(const float* values, float factor) { scatter(values, factor, &FlatBucket::gradients); }

  std::vector<float> weights() const { return gather({buckets_[0].weights, buckets_[1].weights}); }
  /// The elements of the parameters in flat tensors like the buckets.
  std::vector<float> gather(const std::vector<torch::Tensor>& flats) const {
    std::vector<float> values;
    for_each_segment([&](std::size_t bucket, const Segment& segment) {
      const float* from = flats[bucket].data_ptr<float>() + segment.begin;
      values.insert(values.end(), from, from + segment.count);
    });
    return values;
  }
  /// What lies between the parameters.
  static std::vector<float> gaps(const FlatBucket& bucket, const torch::Tensor& flat) {
    std::vector<float> values;
    const float* const data = flat.data_ptr<float>();
    std::int64_t at = 0;
    for (const auto& segment : bucket.segments) {
      values.insert(values.end(), data + at, data + segment.begin);
      at = segment.begin + segment.count;
    }
    values.insert(values.end(), data + at, data + flat.numel());
    return values;
  }

 private:
  template <typename Work>
  void for_each_segment(const Work& work) const {
    const std::size_t parameters = buckets_[0].segments.size() + buckets_[1].segments.size();
    for (std::size_t i = 0; i < parameters; ++i) work(i % 2, buckets_[i % 2].segments[i / 2]);
  }
  void scatter(const float* values, float factor, torch::Tensor FlatBucket::*member) {
    for_each_segment([&](std::size_t bucket, const Segment& segment) {
      float* to = (buckets_[bucket].*member).data_ptr<float>() + segment.begin;
      for (std::int64_t i = 0; i < segment.count; ++i) to[i] = factor * *values++;
    });
  }

  std::vector<FlatBucket> buckets_;
  std::int64_t count_ = 0;
};

}  // namespace yoke::engine
