// Ranks as threads that train together, for tests: each has its own trainer, data set and device; the groups between
// them are real.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "yoke/comm/join.h"
#include "yoke/comm/store/store.h"
#include "yoke/data/dataset.h"
#include "yoke/engine/trainer.h"
#include "yoke/tensor/device.h"

namespace yoke::engine::testing {

/// Lanes by rank: {vsw, ga}.
using Shape = std::vector<std::pair<int, int>>;

inline cluster::DeviceId device(int rank) {
  return {.node = "node" + std::to_string(rank), .index = 0};
}

inline std::vector<cluster::DeviceId> devices(std::size_t count) {
  std::vector<cluster::DeviceId> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(device(static_cast<int>(i)));
  return all;
}

inline plan::Plan plan_of(const Shape& shape, int lbs, plan::Sync sync = plan::Sync::kOverlap) {
  plan::Plan plan{.model = "test", .lbs = lbs, .sync = sync};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    plan.data_lanes.push_back({.device = device(static_cast<int>(i)), .vsw = shape[i].first, .ga = shape[i].second});
  }
  plan.gbs = plan.workers() * lbs;
  return plan;
}

/// A job on synthetic data, or on images.
struct TestJob {
  plan::Job job;
  std::string model = "mlp";
  std::vector<std::int64_t> input{1, 6, 6};
  std::int64_t classes = 5;
  std::int64_t samples = 96;
  std::string images = {};  // the folder; `input` is to fit
  double dropout = -1;      // the model's own
  std::optional<LossScaleOptions> loss_scale = {};
  bool meet = false;

  TestJob() {
    job.optimizer = {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-4};
    job.epochs = 3;
    job.seed = 7;
  }
};

inline models::Architecture model_of(const TestJob& what) {
  return models::make_model(what.model, {.classes = what.classes, .input_shape = what.input, .dropout = what.dropout})
      .value();
}

inline std::unique_ptr<data::Dataset> data_of(const TestJob& what, data::Split split) {
  data::DatasetOptions options{
      .name = "synthetic", .split = split, .limit = what.samples, .shape = what.input, .classes = what.classes};
  if (!what.images.empty()) {
    options.name = "image-folder";
    options.path = what.images;
    options.image = what.input.back();
    options.resize = what.input.back();
  }
  return data::open_dataset(options).value();
}

/// What one rank has: alive while the rank trains.
struct Rank {
  int rank = 0;
  std::unique_ptr<data::Dataset> train;
  std::unique_ptr<data::Dataset> test;
  std::unique_ptr<tensor::Device> device;
  std::unique_ptr<Trainer> trainer;
};

inline const base::Clock& test_clock() {
  static const base::SystemClock clock;
  return clock;
}

inline Rank make_rank(const TestJob& what, int rank) {
  Rank made{.rank = rank};
  made.train = data_of(what, data::Split::kTrain);
  made.test = data_of(what, data::Split::kTest);
  made.device = tensor::make_cpu_device(1);
  auto trainer = Trainer::make({.job = what.job,
                                .architecture = model_of(what),
                                .train = made.train.get(),
                                .test = made.test.get(),
                                .device = made.device.get(),
                                .loss_scale = what.loss_scale,
                                .meet = what.meet,
                                .patience = std::chrono::seconds(60)},
                               test_clock());
  made.trainer = std::move(trainer).value();
  return made;
}

inline std::unique_ptr<comm::Group> join_ranks(comm::Store& store, const std::string& name, int rank, int size,
                                               const std::string& backend = "local") {
  // Ranks wait for each other, so none shares a client.
  const auto own = store.another(base::Deadline::in(std::chrono::seconds(5), test_clock())).value();
  return comm::join({.name = name, .rank = rank, .size = size, .backend = backend}, *own,
                    base::Deadline::in(std::chrono::seconds(30), test_clock()), test_clock())
      .value();
}

/// What a rank ended with.
struct Trained {
  std::vector<double> losses;
  NamedTensors weights;  // copies
};

inline NamedTensors copy_of(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) copies.emplace_back(name, tensor.clone());
  return copies;
}

/// Runs `body(rank)` in a thread for each rank.
inline void in_threads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
}

/// Trains `steps` steps on the shape and returns what rank 0 ended with.
inline Trained train(const TestJob& what, const Shape& shape, int lbs, int steps,
                     plan::Sync sync = plan::Sync::kOverlap, const std::string& backend = "local") {
  const auto store = comm::make_memory_store();
  Trained result;
  const int size = static_cast<int>(shape.size());
  in_threads(size, [&](int rank) {
    Rank own = make_rank(what, rank);
    const auto configured = own.trainer->configure(plan_of(shape, lbs, sync),
                                                   join_ranks(*store, "g", rank, size, backend), devices(shape.size()));
    ASSERT_TRUE(configured.ok()) << configured.error().to_string();
    for (int step = 0; step < steps; ++step) {
      const auto report = own.trainer->step();
      ASSERT_TRUE(report.ok()) << report.error().to_string();
      if (rank == 0) result.losses.push_back(report->loss);
    }
    if (rank == 0) result.weights = copy_of(own.trainer->snapshot().value().weights);
    EXPECT_TRUE(own.trainer->group().close().ok());
  });
  return result;
}

/// The largest difference between tensors of the same names, relative to the largest value of each.
inline double difference(const NamedTensors& one, const NamedTensors& other) {
  double most = one.size() == other.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
    const auto a = one[i].second.to(torch::kDouble);
    const auto b = other[i].second.to(torch::kDouble);
    const double scale = std::max(1e-6, a.abs().max().item<double>());
    most = std::max(most, (a - b).abs().max().item<double>() / scale);
  }
  return most;
}

inline bool same_bits(const NamedTensors& one, const NamedTensors& other) {
  if (one.size() != other.size()) return false;
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (!torch::equal(one[i].second, other[i].second)) return false;
  }
  return true;
}

}  // namespace yoke::engine::testing
