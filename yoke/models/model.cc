#include "yoke/models/model.h"

#include <ATen/OpMathType.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <unordered_map>

#include "yoke/base/mutex.h"
#include "yoke/base/rng.h"
#include "yoke/base/text.h"
#include "yoke/models/torch_reason.h"

namespace yoke::models {

namespace {

using base::require;

std::string shape_text(const torch::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "));
}

std::string describe(const Flow& flow) {
  std::vector<std::string> words;
  for (const auto& [name, tensor] : flow.tensors()) words.push_back(fmt::format("`{}` {}", name, shape_text(tensor)));
  return words.empty() ? "nothing" : base::join_words(words);
}

auto find(const NamedTensors& tensors, std::string_view name) {
  return std::find_if(tensors.begin(), tensors.end(), [&](const auto& named) { return named.first == name; });
}

auto find_or_fail(const Flow& flow, std::string_view name) {
  const auto found = find(flow.tensors(), name);
  if (found == flow.tensors().end()) {
    require(false, fmt::format("a block wants the tensor `{}`, the flow holds {}", name, describe(flow)));
  }
  return found;
}

/// torch::nn fills new layers from the process's CPU generator. One network at a time borrows it.
base::Mutex& building() {
  static base::Mutex mutex;
  return mutex;
}

/// The process's CPU generator, whose state is put back at the end of the scope.
class BorrowedGenerator {
 public:
  BorrowedGenerator() : generator_(at::detail::getDefaultCPUGenerator()) {
    std::lock_guard<std::mutex> lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~BorrowedGenerator() {
    std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(state_);
  }
  BorrowedGenerator(const BorrowedGenerator&) = delete;
  BorrowedGenerator& operator=(const BorrowedGenerator&) = delete;

  void seed(std::uint64_t seed) {
    std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_current_seed(seed);
  }

 private:
  at::Generator generator_;
  torch::Tensor state_;
};

std::uint64_t block_seed(std::uint64_t seed, std::size_t block, base::Purpose purpose) {
  return base::Stream({.seed = seed, .step = block, .purpose = purpose}).bits64();
}

std::uint64_t draw(at::Generator generator) {
  const auto options = torch::TensorOptions().dtype(torch::kLong).device(generator.device());
  return static_cast<std::uint64_t>(torch::empty({}, options).random_(generator).item<std::int64_t>());
}

std::string full_name(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

bool may_be_missing(std::string_view name) {
  return name == "num_batches_tracked" || name.ends_with(".num_batches_tracked");
}

}  // namespace

const torch::Tensor& Flow::at(std::string_view name) const {
  return find_or_fail(*this, name)->second;
}

bool Flow::contains(std::string_view name) const {
  return find(tensors_, name) != tensors_.end();
}

void Flow::set(std::string_view name, torch::Tensor tensor) {
  const auto found = find(tensors_, name);
  if (found == tensors_.end()) {
    tensors_.emplace_back(name, std::move(tensor));
  } else {
    tensors_[static_cast<std::size_t>(found - tensors_.begin())].second = std::move(tensor);
  }
}

torch::Tensor Flow::take(std::string_view name) {
  const auto place = tensors_.begin() + (find_or_fail(*this, name) - tensors_.cbegin());
  torch::Tensor tensor = std::move(place->second);
  tensors_.erase(place);
  return tensor;
}

Network::Network(const Architecture& architecture, const BuildOptions& options) : first_(options.first) {
  const std::size_t last = options.last.value_or(architecture.blocks.size());
  require(options.first <= last && last <= architecture.blocks.size(),
          fmt::format("blocks {} to {} of model `{}`, which has {}", options.first, last, architecture.name,
                      architecture.blocks.size()));
  {
    base::MutexLock lock(building());
    BorrowedGenerator generator;
    for (std::size_t i = options.first; i < last; ++i) {
      const BlockSpec& spec = architecture.blocks[i];
      generator.seed(block_seed(options.seed, i, base::Purpose::kInit));
      blocks_.push_back(spec.make());
      names_.push_back(spec.name);
      prefixes_.push_back(spec.prefix);
    }
  }
  std::set<std::string> names;
  for (const auto& tensors : {parameters(), buffers()}) {
    for (const NamedTensor& tensor : tensors) {
      require(
          names.insert(tensor.name).second,
          fmt::format("model `{}` has two tensors `{}`: blocks need other prefixes", architecture.name, tensor.name));
    }
  }
}

void Network::forward(Flow& flow, const Pass& pass) {
  std::optional<at::Generator> generator = pass.generator;
  const std::uint64_t number = generator ? draw(*generator) : 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (generator) generator->set_current_seed(block_seed(number, first_ + i, base::Purpose::kDropout));
    // Described before the block takes its tensors out.
    const auto refused = [&, input = flow.contains("x") ? shape_text(flow.at("x")) : "none"](const auto& error) {
      return base::Failure(
          base::input_error(fmt::format("block `{}` cannot work on x of shape {}: {}; does the data fit the model?",
                                        names_[i], input, torch_reason(error))));
    };
    try {
      blocks_[i]->forward(flow, pass);
    } catch (const base::Failure&) {
      throw;
    } catch (const c10::OutOfMemoryError&) {
      throw;  // says nothing about the data
    } catch (const std::runtime_error& error) {
      throw refused(error);  // what TorchScript throws
    } catch (const c10::Error& error) {
      throw refused(error);
    }
  }
  if (generator) generator->set_current_seed(number);  // for the next pass, whichever blocks this network has
}

std::vector<NamedTensor> Network::parameters() const {
  std::vector<NamedTensor> all;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    for (const auto& item : blocks_[i]->named_parameters()) {
      all.push_back({full_name(prefixes_[i], item.key()), item.value(), first_ + i});
    }
  }
  return all;
}

std::vector<NamedTensor> Network::buffers() const {
  std::vector<NamedTensor> all;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    for (const auto& item : blocks_[i]->named_buffers()) {
      all.push_back({full_name(prefixes_[i], item.key()), item.value(), first_ + i});
    }
  }
  return all;
}

base::Status load_weights(Network& network, const NamedTensors& weights, const base::Where& where) {
  const auto refuse = [&](const std::string& name, const std::string& message) {
    base::Where place = where;
    if (place.field.empty()) place.field = name;
    return base::input_error(message, place);
  };
  std::vector<NamedTensor> wanted = network.parameters();
  for (NamedTensor& buffer : network.buffers()) wanted.push_back(std::move(buffer));

  std::unordered_map<std::string_view, torch::Tensor> given;
  for (const auto& [name, tensor] : weights) {
    if (!given.emplace(name, tensor).second)
      return refuse(name, fmt::format("found {} twice, expected once", base::quote(name)));
  }
  for (const NamedTensor& target : wanted) {
    const auto found = given.find(target.name);
    if (found == given.end()) {
      if (may_be_missing(target.name)) continue;
      return refuse(target.name, fmt::format("found no tensor `{}` of shape {}, which the model has: are these the "
                                             "weights of another model?",
                                             target.name, shape_text(target.tensor)));
    }
    const torch::Tensor& source = found->second;
    require(source.defined(), fmt::format("load_weights was given an undefined tensor `{}`", target.name));
    if (source.sizes() != target.tensor.sizes()) {
      return refuse(target.name, fmt::format("found `{}` of shape {}, expected {}: is the number of classes the same?",
                                             target.name, shape_text(source), shape_text(target.tensor)));
    }
    if (source.is_floating_point() != target.tensor.is_floating_point()) {
      return refuse(target.name,
                    fmt::format("found `{}` of type {}, expected {}", target.name, c10::toString(source.scalar_type()),
                                c10::toString(target.tensor.scalar_type())));
    }
  }
  std::vector<std::string> names;
  for (const NamedTensor& target : wanted) names.push_back(target.name);
  const std::set<std::string_view> known(names.begin(), names.end());
  for (const auto& [name, tensor] : weights) {
    if (known.contains(name)) continue;
    return refuse(name, fmt::format("found {}, which the model does not have{}", base::quote(name),
                                    base::did_you_mean(name, names)));
  }

  torch::NoGradGuard no_gradients;
  for (NamedTensor& target : wanted) {
    const auto found = given.find(target.name);
    if (found == given.end()) {
      target.tensor.zero_();
    } else {
      target.tensor.copy_(found->second);
    }
  }
  return {};
}

Score cross_entropy(const Flow& flow, const LossOptions& options, bool count_correct) {
  // In f32 where the model computed in half precision, as torch's autocast does it: a loss in bf16 has three digits,
  // and one in fp16 cannot be multiplied by a loss scale.
  const torch::Tensor& given = flow.at("x");
  const torch::Tensor scores = given.to(at::toOpMathType(given.scalar_type()));
  const torch::Tensor& targets = flow.at("targets");
  Score score;
  score.loss = torch::nn::functional::cross_entropy(
      scores, targets, torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(options.label_smoothing));
  score.samples = targets.size(0);
  if (count_correct) score.correct = scores.detach().argmax(1).eq(targets).sum().item<std::int64_t>();
  return score;
}

}  // namespace yoke::models
