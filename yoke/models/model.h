// A model is an ordered list of blocks and a loss. What flows between blocks is a small set of tensors with names, so
// skip links, encoder outputs and targets travel by name. Any contiguous range of blocks can be built by itself: a
// pipeline stage. Parameters have the same full names in any range, so any plan can load any checkpoint.
//
//   YOKE_TRY(Architecture architecture, make_model("resnet18", {.classes = 10}));
//   Network network(architecture, {.seed = 1});                        // or a range of blocks
//   Flow flow({{"x", images}, {"targets", labels}});
//   network.forward(flow, Pass{.training = true, .generator = worker_generator});
//   Score score = architecture.loss(flow, {.label_smoothing = 0.1});
//   score.loss.backward();
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yoke/base/result.h"

namespace yoke::models {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// The tensors on their way between two blocks. A few, so that they are searched one by one.
class Flow {
 public:
  Flow() = default;
  explicit Flow(NamedTensors tensors) : tensors_(std::move(tensors)) {}

  /// Precondition: it is there (else base::Failure that lists what is).
  const torch::Tensor& at(std::string_view name) const;
  bool contains(std::string_view name) const;
  void set(std::string_view name, torch::Tensor tensor);
  /// Removes it. Precondition: it is there.
  torch::Tensor take(std::string_view name);
  const NamedTensors& tensors() const { return tensors_; }

 private:
  NamedTensors tensors_;
};

/// What a block may depend on besides the flow.
struct Pass {
  bool training = true;
  std::optional<at::Generator> generator;  // of the worker: dropout and the like draw from it; absent: the process's
};

/// A part of a model that is never cut. One thread at a time.
class Block : public torch::nn::Module {
 public:
  /// Takes its inputs from the flow and puts its outputs there. The main tensor is called "x". Does not change its
  /// inputs in place: the stage before may still need them. Heeds pass.training, not is_training().
  virtual void forward(Flow& flow, const Pass& pass) = 0;
};

struct BlockSpec {
  std::string name;    // unique in the model: what profiles and plans call it, e.g. "layer1.0"
  std::string prefix;  // put before the names of its parameters with a dot, e.g. "layer1.0"; empty: nothing is
  std::function<std::shared_ptr<Block>()> make;
};

struct LossOptions {
  double label_smoothing = 0;
};

/// How good a flow at the end of the model is. Sums, so that the scores of workers can be added.
struct Score {
  torch::Tensor loss;         // mean over the samples; a scalar with a graph behind it
  std::int64_t samples = 0;   // how many it is the mean of
  std::int64_t correct = -1;  // of them, by the largest class; -1: this loss knows no such thing, or was not asked
};

struct Architecture {
  std::string name;
  std::vector<BlockSpec> blocks;
  /// `count_correct` costs a little: evaluation asks for it, training does not.
  std::function<Score(const Flow&, const LossOptions&, bool count_correct)> loss;
};

struct ModelOptions {
  std::int64_t classes = 10;
  std::vector<std::int64_t> input_shape;  // of one sample, where the model adapts to it (mlp); empty: its own
  std::string path;                       // of a TorchScript file, or of a layer profile to replay
  double time_scale = 1;                  // replay: of the profiled times
  double size_scale = 1;                  // replay: of the profiled activations and parameters
  double dropout = -1;                    // probability in [0, 1) for all dropout layers; -1: the model's own
};

struct NamedTensor {
  std::string name;  // full: with the block's prefix
  torch::Tensor tensor;
  std::size_t block = 0;  // its index in the architecture
};

struct BuildOptions {
  std::uint64_t seed = 0;  // initial weights depend on it and on the block, not on the range that is built
  std::size_t first = 0;
  std::optional<std::size_t> last;  // one beyond the last block; absent: all
};

/// A contiguous range of blocks, built. One thread at a time; several networks may share the storage of their tensors.
class Network {
 public:
  /// Precondition: the range lies in the architecture, and no two tensors have the same full name. Blocks draw their
  /// weights from the process's CPU generator, which is seeded for each and put back afterwards: networks are built one
  /// at a time, and nothing else may draw from that generator meanwhile.
  Network(const Architecture& architecture, const BuildOptions& options);

  /// Draws one number from the pass's generator; each block gets a generator that depends on that number and on the
  /// block's index. So stages whose generators start alike together draw what the whole model would.
  /// Throws base::Failure of kind input that names the block where libtorch refuses, e.g. images of a wrong size.
  void forward(Flow& flow, const Pass& pass);
  /// In forward order of blocks, and in the order registered within one.
  std::vector<NamedTensor> parameters() const;
  std::vector<NamedTensor> buffers() const;
  std::size_t blocks() const { return blocks_.size(); }
  Block& block(std::size_t index) { return *blocks_[index]; }

 private:
  std::vector<std::shared_ptr<Block>> blocks_;
  std::vector<std::string> names_;
  std::vector<std::string> prefixes_;
  std::size_t first_ = 0;
};

/// What can be made by name.
struct ModelInfo {
  std::string name;
  std::string summary;  // one line for people
  std::function<base::Result<Architecture>(const ModelOptions&)> make;
};

/// Adds a model under a name of its own, e.g. a user's. Call before threads start. Fails if the name is taken.
base::Status register_model(ModelInfo info);
std::vector<std::string> list_models();
/// Input error that names the nearest model when there is none of that name.
base::Result<Architecture> make_model(std::string_view name, const ModelOptions& options);

/// Copies tensors into parameters and buffers of the same names. Input error that names the first that is missing,
/// unknown or of another shape; `where` is put into the message. Nothing is changed then. The `num_batches_tracked` of
/// a batch norm may be missing, as in older files of torchvision, and is then 0. Numbers are converted to the network's
/// type (f16 to f32).
base::Status load_weights(Network& network, const NamedTensors& weights, const base::Where& where = {});

/// Cross-entropy between "x" and "targets", the usual loss of a classifier.
Score cross_entropy(const Flow& flow, const LossOptions& options, bool count_correct);

}  // namespace yoke::models
