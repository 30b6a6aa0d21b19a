#include <fmt/format.h>
#include <torch/script.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "yoke/base/text.h"
#include "yoke/models/model.h"
#include "yoke/models/torch_reason.h"
#include "yoke/models/zoo/zoo.h"

namespace yoke::models {

namespace {

using base::input_error;
using Script = torch::jit::Module;

/// A copy that shares nothing. libtorch's own forgets which tensors want gradients.
Script copy_of(const Script& source) {
  torch::NoGradGuard no_gradients;
  Script copy = source.deepcopy();
  auto from = source.named_parameters().begin();
  for (auto parameter : copy.named_parameters()) {
    parameter.value.set_requires_grad((*from).value.requires_grad());
    ++from;
  }
  return copy;
}

/// Runs a scripted module; its tensors are registered under the names they have in the script.
class ScriptBlock : public Block {
 public:
  explicit ScriptBlock(Script script) : script_(std::move(script)) { list_tensors(*this, script_); }

  void forward(Flow& flow, const Pass& pass) override {
    if (training_ != pass.training) script_.train(pass.training);
    training_ = pass.training;
    torch::Tensor x = flow.take("x");
    // A script may begin with an operation in place, which autograd forbids on the input of a pipeline stage.
    if (x.requires_grad() && x.is_leaf()) x = x.clone();
    flow.set("x", script_.forward({std::move(x)}).toTensor());
    recover_buffers();
  }

 private:
  struct Buffer {
    Script owner;
    std::string name;
    torch::Tensor tensor;
  };

  void list_tensors(torch::nn::Module& into, const Script& script) {
    for (const auto& parameter : script.named_parameters(/*recurse=*/false)) {
      if (parameter.value.requires_grad()) {
        into.register_parameter(parameter.name, parameter.value);
      } else {
        into.register_buffer(parameter.name, parameter.value);
      }
    }
    for (const auto& buffer : script.named_buffers(/*recurse=*/false)) {
      if (!buffer.value.defined()) continue;
      into.register_buffer(buffer.name, buffer.value);
      buffers_.push_back({script, buffer.name, buffer.value});
    }
    for (const auto& child : script.named_children()) {
      list_tensors(*into.register_module(child.name, std::make_shared<torch::nn::Module>()), child.value);
    }
  }

  /// A script may assign a new tensor to a buffer instead of changing it. Those who hold the buffer see one tensor.
  void recover_buffers() {
    torch::NoGradGuard no_gradients;
    for (Buffer& buffer : buffers_) {
      const torch::Tensor now = buffer.owner.attr(buffer.name).toTensor();
      if (now.is_same(buffer.tensor)) continue;
      buffer.tensor.copy_(now);
      buffer.owner.setattr(buffer.name, buffer.tensor);
    }
  }

  Script script_;
  std::vector<Buffer> buffers_;
  std::optional<bool> training_;
};

/// Whether forward() takes one tensor and returns one.
bool maps_tensor(const Script& script) {
  const auto method = script.find_method("forward");
  if (!method) return false;
  const auto& schema = method->function().getSchema();
  const auto is_tensor = [](const c10::Argument& argument) {
    return argument.type()->isSubtypeOf(*c10::TensorType::get());
  };
  const auto& arguments = schema.arguments();  // the first is the module itself
  return schema.returns().size() == 1 && is_tensor(schema.returns()[0]) && arguments.size() >= 2 &&
         is_tensor(arguments[1]) && std::all_of(arguments.begin() + 2, arguments.end(), [](const auto& argument) {
           return argument.default_value().has_value();
         });
}

/// torch.nn.Sequential itself; a class derived from it may do anything in forward().
bool is_sequential(const Script& script) {
  const auto name = script.type()->name();
  return name && name->name() == "Sequential" && name->prefix().rfind("__torch__.torch.nn.modules.container", 0) == 0;
}

base::Status check_tensors(const Script& script, const base::Where& where) {
  std::map<const void*, std::string> seen;
  const auto check_shared = [&](const std::string& name, const torch::Tensor& tensor) -> base::Status {
    if (!tensor.defined() || tensor.numel() == 0) return {};
    const auto [first, is_new] = seen.emplace(tensor.data_ptr(), name);
    if (is_new) return {};
    return input_error(fmt::format("found that `{}` and `{}` share memory, expected tensors of their own: tied weights "
                                   "cannot be split into blocks; give each its own copy before saving",
                                   first->second, name),
                       where);
  };
  bool trains = false;
  for (const auto& parameter : script.named_parameters()) {
    YOKE_CHECK(check_shared(parameter.name, parameter.value));
    trains = trains || parameter.value.requires_grad();
  }
  for (const auto& buffer : script.named_buffers()) YOKE_CHECK(check_shared(buffer.name, buffer.value));
  if (!trains) {
    return input_error(
        "found no parameter that wants gradients, expected some to train: save the model before torch.jit.freeze, with "
        "requires_grad on",
        where);
  }
  return {};
}

base::Result<Script> read(const std::string& path) {
  const base::Where where{.file = path};
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    return input_error("found no such file, expected one that torch.jit.script(model).save(path) wrote", where);
  }
  try {
    return torch::jit::load(path, torch::kCPU);
  } catch (const std::exception& error) {
    return input_error(
        fmt::format("found no TorchScript module, expected a file that torch.jit.script(model).save(path) wrote "
                    "(torch.save writes another format): {}",
                    torch_reason(error)),
        where);
  }
}

base::Result<Architecture> make(const ModelOptions& options) {
  if (options.path.empty()) {
    return input_error("found no path, expected that of a file that torch.jit.script(model).save(path) wrote",
                       {.field = "path"});
  }
  if (options.dropout != -1) {
    return input_error(
        fmt::format("found a dropout of {}, but the file of model `torchscript` has its own: leave it out",
                    options.dropout),
        {.field = "dropout"});
  }
  YOKE_TRY(const Script script, read(options.path));
  const base::Where where{.file = options.path};
  if (!maps_tensor(script)) {
    const auto method = script.find_method("forward");
    const std::string found = method ? c10::toString(method->function().getSchema()) : "no forward";
    return input_error(
        fmt::format("found {}, expected a forward that takes one tensor and returns one", base::quote(found, 300)),
        where);
  }
  YOKE_CHECK(check_tensors(script, where));

  const auto block = [](const std::string& name, const std::string& prefix, const Script& part) -> BlockSpec {
    return {.name = name, .prefix = prefix, .make = [part] { return std::make_shared<ScriptBlock>(copy_of(part)); }};
  };
  Architecture model{.name = "torchscript", .loss = cross_entropy};
  bool cuttable = is_sequential(script);
  for (const auto& child : script.named_children()) {
    cuttable = cuttable && maps_tensor(child.value);
    model.blocks.push_back(block(child.name, child.name, child.value));
  }
  if (!cuttable) model.blocks = {block("model", "", script)};
  return model;
}

}  // namespace

ModelInfo torchscript() {
  return {.name = "torchscript",
          .summary = "a model of yours that torch.jit.script saved; a Sequential is cut into its children",
          .make = make};
}

}  // namespace yoke::models
