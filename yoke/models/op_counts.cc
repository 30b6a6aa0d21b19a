#include "yoke/models/op_counts.h"

#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "yoke/base/error.h"
#include "yoke/models/model.h"
#include "yoke/models/torch_reason.h"

namespace yoke::models {
namespace {

/// Batches that are counted: two, to tell what grows with them; more than one sample, which batch norms need.
constexpr std::array<std::int64_t, 2> kBatches = {2, 3};

/// What is known of a tensor that an op took or gave.
struct Operand {
  const void* data = nullptr;
  double bytes = 0;
  std::vector<std::int64_t> sizes;

  double elements() const {
    double count = 1;
    for (const auto size : sizes) count *= static_cast<double>(size);
    return count;
  }
};

void collect(const c10::IValue& value, std::vector<Operand>& operands) {
  const auto add = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) {
      operands.emplace_back();  // keeps the places of the others
      return;
    }
    operands.push_back({tensor.has_storage() ? tensor.data_ptr() : nullptr, static_cast<double>(tensor.nbytes()),
                        tensor.sizes().vec()});
  };
  if (value.isTensor()) {
    add(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) add(tensor);
  } else if (value.isTuple()) {
    for (const auto& element : value.toTupleRef().elements()) collect(element, operands);
  }
}

bool is_defined(const std::vector<Operand>& operands, std::size_t index) {
  return index < operands.size() && operands[index].bytes > 0;
}

/// One op at one batch.
struct Counted {
  std::string name;
  OpKind kind = OpKind::kMoving;
  int kernels = 1;
  double flops = 0;
  double bytes = 0;
  double kept = 0;  // bytes of new outputs
};

/// Ops that are one kernel (or as many as counted) on a GPU, whatever the CPU makes of them: what they call is not
/// counted.
const std::set<std::string_view> kWhole{"aten::convolution",
                                        "aten::convolution_backward",
                                        "aten::native_batch_norm",
                                        "aten::_native_batch_norm_legit",
                                        "aten::native_batch_norm_backward",
                                        "aten::addmm",
                                        "aten::mm",
                                        "aten::bmm",
                                        "aten::baddbmm",
                                        "aten::max_pool2d_with_indices",
                                        "aten::max_pool2d_with_indices_backward",
                                        "aten::avg_pool2d",
                                        "aten::avg_pool2d_backward",
                                        "aten::mean",
                                        "aten::sum",
                                        "aten::_adaptive_avg_pool2d",
                                        "aten::_adaptive_avg_pool2d_backward",
                                        "aten::adaptive_avg_pool2d",
                                        "aten::_softmax",
                                        "aten::_log_softmax",
                                        "aten::native_layer_norm",
                                        "aten::native_layer_norm_backward",
                                        "aten::embedding_dense_backward",
                                        "aten::native_dropout",
                                        "aten::native_dropout_backward"};

/// Multiplications and additions of a convolution: each output element is a sum over a filter.
double convolution_flops(const Operand& output, const Operand& weight) {
  return 2 * output.elements() * weight.elements() / static_cast<double>(weight.sizes.at(0));
}

/// 3x3, and as many pixels out as in.
bool is_convolution3(const Operand& input, const Operand& weight, const Operand& output) {
  return weight.sizes.size() == 4 && weight.sizes[2] == 3 && weight.sizes[3] == 3 && input.sizes.size() == 4 &&
         output.sizes.size() == 4 && input.sizes[2] == output.sizes[2] && input.sizes[3] == output.sizes[3];
}

double product_flops(const Operand& left, const Operand& right) {
  return left.sizes.empty() || right.sizes.empty() ? 0 : 2 * left.elements() * static_cast<double>(right.sizes.back());
}

double bytes_of(const std::vector<Operand>& operands) {
  double bytes = 0;
  std::set<const void*> seen;
  for (const auto& operand : operands) {
    if (operand.data != nullptr && seen.insert(operand.data).second) bytes += operand.bytes;
  }
  return bytes;
}

/// Nothing where the op computes nothing: it only looks at its input otherwise, or makes room.
std::optional<Counted> count(const std::string& name, const std::vector<Operand>& in, const std::vector<Operand>& out) {
  const double bytes_in = bytes_of(in), bytes_out = bytes_of(out);
  if (bytes_in <= 0 || bytes_out <= 0) return std::nullopt;
  const auto is_input = [&](const Operand& operand) {
    return operand.data != nullptr &&
           std::ranges::any_of(in, [&](const Operand& other) { return other.data == operand.data; });
  };
  const bool in_place = name.ends_with('_') || name.ends_with("_out");
  if (!in_place && std::ranges::all_of(out, [&](const Operand& o) { return o.data == nullptr || is_input(o); })) {
    return std::nullopt;
  }
  Counted counted{.name = name, .bytes = bytes_in + bytes_out};
  for (const auto& operand : out) {
    if (!is_input(operand)) counted.kept += operand.bytes;
  }
  if (name == "aten::convolution" && in.size() >= 2) {
    counted.kind = is_convolution3(in[0], in[1], out[0]) ? OpKind::kConvolution3 : OpKind::kMatrix;
    counted.flops = convolution_flops(out[0], in[1]);
  } else if (name == "aten::convolution_backward" && in.size() >= 3) {
    // The gradients of the input and of the weights, where asked for: a convolution each.
    counted.kind = is_convolution3(in[1], in[2], in[0]) ? OpKind::kConvolution3 : OpKind::kMatrix;
    counted.kernels = static_cast<int>(is_defined(out, 0)) + static_cast<int>(is_defined(out, 1));
    counted.flops = counted.kernels * convolution_flops(in[0], in[2]);
    counted.bytes += (counted.kernels - 1) * in[0].bytes;
    counted.kernels = std::max(counted.kernels, 1);
  } else if ((name == "aten::mm" || name == "aten::bmm") && in.size() >= 2) {
    counted.kind = OpKind::kMatrix;
    counted.flops = product_flops(in[0], in[1]);
  } else if ((name == "aten::addmm" || name == "aten::baddbmm") && in.size() >= 3) {
    counted.kind = OpKind::kMatrix;
    counted.flops = product_flops(in[1], in[2]);
  } else if (name == "aten::native_batch_norm" || name == "aten::_native_batch_norm_legit" ||
             name == "aten::native_layer_norm") {
    counted.bytes += in[0].bytes;  // once for the statistics, once to normalise
  } else if (name == "aten::native_batch_norm_backward" || name == "aten::native_layer_norm_backward") {
    counted.bytes += in[0].bytes + (in.size() > 1 ? in[1].bytes : 0);
  }
  return counted;
}

/// Listens to the ops of a thread while it lives. The callbacks get at it by the thread's debug information, which
/// libtorch hands on to the threads of a backward pass.
class Recorder : public c10::DebugInfoBase {
 public:
  std::vector<Counted> take() { return std::exchange(counted_, {}); }

  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
    auto frame = std::make_unique<Frame>();
    if (Recorder* recorder = current()) recorder->start(function, *frame);
    return frame;
  }
  static void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
    if (Recorder* recorder = current()) recorder->end(function, *static_cast<Frame*>(context));
  }

 private:
  struct Frame : at::ObserverContext {
    std::vector<Operand> inputs;
    std::size_t counted_before = 0;
  };

  static Recorder* current() {
    return static_cast<Recorder*>(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::TEST_INFO));
  }

  void start(const at::RecordFunction& function, Frame& frame) {
    const bool whole = kWhole.contains(function.name());
    frame.counted_before = counted_.size();
    if (inside_ == 0) {
      for (const auto& input : function.inputs()) collect(input, frame.inputs);
    }
    if (whole) ++inside_;
  }

  void end(const at::RecordFunction& function, const Frame& frame) {
    const std::string name = function.name();
    if (kWhole.contains(name)) --inside_;
    // Inside of a whole op, or made of ops that were counted.
    if (inside_ > 0 || counted_.size() > frame.counted_before) return;
    std::vector<Operand> outputs;
    for (const auto& output : function.outputs()) collect(output, outputs);
    if (auto counted = count(name, frame.inputs, outputs)) counted_.push_back(*std::move(counted));
  }

  int inside_ = 0;
  std::vector<Counted> counted_;
};

/// Puts a recorder up, and takes it down.
class Listening {
 public:
  Listening()
      : recorder_(std::make_shared<Recorder>()),
        guard_(c10::DebugInfoKind::TEST_INFO, recorder_),
        handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(&Recorder::on_start, &Recorder::on_end)
                                               .needsInputs(true)
                                               .needsOutputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {}
  ~Listening() { at::removeCallback(handle_); }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

  std::vector<Counted> take() { return recorder_->take(); }

 private:
  const std::shared_ptr<Recorder> recorder_;
  const c10::DebugInfoGuard guard_;
  const at::CallbackHandle handle_;
};

/// One block at one batch.
struct Passes {
  std::vector<Counted> forward;
  std::vector<Counted> backward;
  double output_bytes = 0;
};

/// One after another: every block's own backward pass follows its forward pass.
std::vector<Passes> run_blocks(Network& network, Flow flow) {
  std::vector<Passes> passes;
  const Pass pass{.training = true, .generator = std::nullopt};
  Listening listening;
  for (std::size_t i = 0; i < network.blocks(); ++i) {
    Flow cut;
    for (const auto& [name, tensor] : flow.tensors()) {
      // Nobody asks for the gradient of the data itself.
      cut.set(name, i > 0 && tensor.is_floating_point() ? tensor.detach().requires_grad_(true) : tensor.detach());
    }
    (void)listening.take();
    Flow out = cut;
    network.block(i).forward(out, pass);
    Passes block{.forward = listening.take(), .backward = {}};
    std::vector<torch::Tensor> ends;
    std::vector<torch::Tensor> gradients;
    for (const auto& [name, tensor] : out.tensors()) {
      block.output_bytes += static_cast<double>(tensor.nbytes());
      if (!tensor.requires_grad() || tensor.grad_fn() == nullptr) continue;
      ends.push_back(tensor);
      gradients.push_back(torch::ones_like(tensor));
    }
    (void)listening.take();
    if (!ends.empty()) torch::autograd::backward(ends, gradients);
    block.backward = listening.take();
    passes.push_back(std::move(block));
    flow = std::move(out);
  }
  return passes;
}

PerBatch between(double at_first, double at_second) {
  const auto first = static_cast<double>(kBatches[0]), second = static_cast<double>(kBatches[1]);
  const double slope = (at_second - at_first) / (second - first);
  return {.fixed = at_first - slope * first, .per_sample = slope};
}

std::vector<OpCount> between(const std::vector<Counted>& first, const std::vector<Counted>& second) {
  base::require(first.size() == second.size(),
                fmt::format("count_ops: {} ops at one batch, {} at another", first.size(), second.size()));
  std::vector<OpCount> ops;
  for (std::size_t i = 0; i < first.size(); ++i) {
    ops.push_back({.name = first[i].name,
                   .kind = first[i].kind,
                   .kernels = first[i].kernels,
                   .flops = between(first[i].flops, second[i].flops),
                   .bytes = between(first[i].bytes, second[i].bytes)});
  }
  return ops;
}

double kept_bytes(const std::vector<Counted>& ops) {
  double bytes = 0;
  for (const auto& op : ops) bytes += op.kept;
  return bytes;
}

/// Where a model is made for one kind of image by default.
std::vector<std::int64_t> own_shape(const std::string& model) {
  if (model == "mlp" || model == "small_cnn") return {1, 28, 28};
  return {3, 224, 224};
}

}  // namespace

base::Result<ModelCount> count_ops(const CountRequest& request) {
  ModelOptions options{.classes = request.classes, .input_shape = request.input_shape, .path = request.path};
  YOKE_TRY(const Architecture architecture, make_model(request.model, options));
  const auto shape = request.input_shape.empty() ? own_shape(request.model) : request.input_shape;
  Network network(architecture, {.seed = 1});
  std::array<std::vector<Passes>, 2> passes;
  std::array<double, 2> inputs{};
  for (std::size_t i = 0; i < kBatches.size(); ++i) {
    std::vector<std::int64_t> sizes{kBatches[i]};
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    const torch::Tensor images = torch::zeros(sizes);
    // Gradients that are there already would be added to, which is one op more.
    for (auto& parameter : network.parameters()) parameter.tensor.mutable_grad() = torch::Tensor();
    inputs[i] = static_cast<double>(images.nbytes());
    try {
      passes[i] = run_blocks(network, Flow({{"x", images}}));
    } catch (const c10::Error& fault) {
      return base::input_error(fmt::format("the model {} does not take samples of shape [{}]: {}", request.model,
                                           fmt::join(shape, ", "), torch_reason(fault)),
                               {.field = "input_shape"});
    }
  }
  ModelCount count{.model = request.model, .input_bytes = between(inputs[0], inputs[1]), .blocks = {}};
  for (std::size_t i = 0; i < architecture.blocks.size(); ++i) {
    const Passes &first = passes[0][i], &second = passes[1][i];
    count.blocks.push_back({.name = architecture.blocks[i].name,
                            .forward = between(first.forward, second.forward),
                            .backward = between(first.backward, second.backward),
                            .output_bytes = between(first.output_bytes, second.output_bytes),
                            .activation_bytes = between(kept_bytes(first.forward), kept_bytes(second.forward)),
                            .parameter_bytes = {}});
  }
  for (const auto& parameter : network.parameters()) {
    count.blocks.at(parameter.block).parameter_bytes.push_back(static_cast<double>(parameter.tensor.nbytes()));
  }
  return count;
}

}  // namespace yoke::models
