#include "yoke/profiler/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "yoke/engine/holding.h"
#include "yoke/engine/replica.h"
#include "yoke/models/torch_reason.h"

namespace yoke::profiler {
namespace {

// Marks of the device's slot.
constexpr int kBegin = 0;
constexpr int kEnd = 1;

bool carries_gradient(const torch::Tensor& tensor) {
  return tensor.requires_grad() && tensor.is_floating_point();
}

/// One block: its weights, gradients and optimizer, and of the pass at hand what went in, as leaves of a graph of its
/// own, and what came out.
struct Step {
  std::unique_ptr<engine::Holding> holding;
  std::unique_ptr<engine::Replica> replica;  // uses the holding
  models::NamedTensors inputs;
  models::NamedTensors outputs;
};

class BlockTimer final : public LayerTimer {
 public:
  BlockTimer(Session& session, const models::LossOptions& loss)
      : session_(session),
        loss_(loss),
        architecture_(session.architecture()),
        slot_(session.device().enter(0, 1)),
        steps_(architecture_.blocks.size()) {}

  base::Status load() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      Step& step = steps_[i];
      YOKE_TRY(step.holding,
               engine::Holding::make(architecture_, session_.job(), {.first = i, .last = i + 1}, session_.device()));
      step.replica = std::make_unique<engine::Replica>(architecture_, i, i + 1, step.holding->parameters(),
                                                       step.holding->gradients(), session_.device().where());
      // A step without end: all passes but the first, which is not counted, add to what is there.
      step.holding->gradients().begin(std::numeric_limits<int>::max());
    }
    return {};
  }

  base::Result<profile::LayerGraph> measure(int lbs, const Patience& patience, double noisy,
                                            const base::Clock& clock) override {
    return guarded([&]() -> base::Result<profile::LayerGraph> {
      YOKE_CHECK(begin(lbs));
      Series passes;
      const auto timed_pass = [&](bool counts) {
        const auto began = clock.now();
        pass(counts);
        return base::to_seconds(clock.now() - began);
      };
      // The time is for the pass that does not count too.
      double spent = timed_pass(false);
      do {
        const double seconds = timed_pass(true);
        passes.add(seconds);
        spent += seconds;
      } while (!patience.enough(passes, spent));
      YOKE_TRY(const auto measured, graph());
      return measured.with_confidence(passes.confidence(noisy));
    });
  }

 private:
  /// Forgets what was measured, and takes the samples of a new visit.
  base::Status begin(int lbs) {
    lbs_ = lbs;
    forward_.assign(steps_.size(), {});
    backward_ = forward_;
    update_ = forward_;
    loss_forward_ = {};
    loss_backward_ = {};
    std::vector<std::int64_t> indices(static_cast<std::size_t>(lbs));
    std::iota(indices.begin(), indices.end(), 0);
    for (auto& index : indices) index %= session_.data().info().size;
    YOKE_TRY(const data::Batch batch, session_.data().load(indices, std::nullopt));
    given_.clear();
    for (const auto& [name, tensor] : batch.tensors) given_.emplace_back(name, session_.device().upload(tensor));
    return {};
  }

  /// One pass; counted unless it is to warm up.
  void pass(bool counts) {
    models::NamedTensors flow = given_;
    for (std::size_t i = 0; i < steps_.size(); ++i) flow = forward(i, std::move(flow), counts);
    auto gradients = last_gradients(flow, counts);
    for (std::size_t i = steps_.size(); i-- > 0;) gradients = backward(i, gradients, counts);
    for (std::size_t i = 0; i < steps_.size(); ++i) update(i, counts);
  }

  base::Result<profile::LayerGraph> graph() const {
    std::vector<profile::Layer> layers;
    std::vector<profile::Edge> edges;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      profile::Layer layer{.id = architecture_.blocks[i].name,
                           .description = fmt::format("{} block {}", architecture_.name, i),
                           .forward_ms = forward_[i].median() * 1000,
                           .backward_ms = backward_[i].median() * 1000,
                           .output_bytes = output_bytes_[i]};
      if (i + 1 == steps_.size()) {
        layer.forward_ms += loss_forward_.median() * 1000;
        layer.backward_ms += loss_backward_.median() * 1000;
      }
      const engine::Parameters& parameters = steps_[i].holding->parameters();
      for (std::size_t p = 0; p < parameters.count(); ++p) {
        layer.parameter_bytes += static_cast<double>(parameters.weight(p).nbytes());
      }
      if (layer.parameter_bytes > 0) layer.update_ms = update_[i].median() * 1000;
      layers.push_back(std::move(layer));
      if (i > 0) edges.push_back({static_cast<int>(i) - 1, static_cast<int>(i)});
    }
    YOKE_TRY(const auto graph, profile::LayerGraph::make(std::move(layers), std::move(edges)));
    return graph.with_lbs(lbs_);
  }

  const std::string& name(std::size_t block) const { return architecture_.blocks[block].name; }

  double timed(const std::function<void()>& work) {
    slot_->mark(kBegin);
    work();
    slot_->mark(kEnd);
    slot_->finish();
    return slot_->seconds_between(kBegin, kEnd);
  }

  bool was_given(const torch::Tensor& tensor) const {
    return std::ranges::any_of(given_, [&](const auto& each) { return each.second.is_same(tensor); });
  }

  models::NamedTensors forward(std::size_t block, models::NamedTensors flow, bool counts) {
    Step& step = steps_[block];
    step.inputs.clear();
    for (auto& [label, tensor] : flow) {
      const bool leaf = block > 0 && tensor.is_floating_point() && !was_given(tensor);
      step.inputs.emplace_back(label, leaf ? tensor.detach().requires_grad_() : tensor);
    }
    models::Flow inside(step.inputs);
    const models::Pass pass{.training = true};
    blame(block, "forward", [&] {
      const double seconds = timed([&] { step.replica->network().block(0).forward(inside, pass); });
      if (counts) forward_[block].add(seconds);
    });
    step.outputs.clear();
    std::vector<double> bytes;
    for (const auto& [label, tensor] : inside.tensors()) {
      step.outputs.emplace_back(label, tensor);
      if (!was_given(tensor)) bytes.push_back(static_cast<double>(tensor.nbytes()));
    }
    if (bytes.empty()) bytes.push_back(0);
    output_bytes_.resize(steps_.size());
    output_bytes_[block] = std::move(bytes);
    return step.outputs;
  }

  /// The loss and its gradients by what the last block put out.
  std::vector<torch::Tensor> last_gradients(const models::NamedTensors& flow, bool counts) {
    const std::size_t last = steps_.size() - 1;
    models::NamedTensors leaves;
    for (const auto& [label, tensor] : flow) {
      leaves.emplace_back(label, tensor.requires_grad() ? tensor.detach().requires_grad_() : tensor);
    }
    blame(last, "backward", [&] {
      torch::Tensor loss;
      const double forward_seconds = timed([&] { loss = architecture_.loss(models::Flow(leaves), loss_, false).loss; });
      const double backward_seconds = timed([&] { loss.backward(); });
      if (!counts) return;
      loss_forward_.add(forward_seconds);
      loss_backward_.add(backward_seconds);
    });
    std::vector<torch::Tensor> gradients;
    for (const auto& [label, tensor] : leaves) gradients.push_back(tensor.grad());
    return gradients;
  }

  /// `gradients` of what the block put out, in that order; returns those of what went in.
  std::vector<torch::Tensor> backward(std::size_t block, const std::vector<torch::Tensor>& gradients, bool counts) {
    Step& step = steps_[block];
    std::vector<torch::Tensor> roots;
    std::vector<torch::Tensor> seeds;
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      const torch::Tensor& output = step.outputs[i].second;
      if (!carries_gradient(output) || !gradients[i].defined()) continue;
      roots.push_back(output);
      seeds.push_back(gradients[i]);
    }
    if (!roots.empty())
      blame(block, "backward", [&] {
        const double seconds = timed([&] { step.replica->backward(roots, seeds, 1); });
        if (counts) backward_[block].add(seconds);
      });
    // What the block before put out, in its order: names that this one got.
    std::vector<torch::Tensor> before;
    for (const auto& [label, tensor] : step.inputs) before.push_back(tensor.grad());
    step.outputs.clear();
    return before;
  }

  void update(std::size_t block, bool counts) {
    engine::Holding& holding = *steps_[block].holding;
    const double seconds = timed([&] {
      for (std::size_t i = 0; i < holding.parameters().buckets().size(); ++i) {
        holding.optimizer().update(i, {.lr = 0, .scale = 0});
      }
    });
    if (counts) update_[block].add(seconds);
  }

  /// Whatever goes wrong in `work` is the block's.
  void blame(std::size_t block, std::string_view pass, const std::function<void()>& work) const {
    const auto refused = [&](std::string_view reason) {
      return base::Failure(base::input_error(
          fmt::format("block `{}` fails in its {} pass with {} samples: {}", name(block), pass, lbs_, reason),
          {.field = "model"}));
    };
    try {
      work();
    } catch (const base::Failure& failure) {
      throw refused(failure.error().message);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      throw refused(models::torch_reason(error));
    }
  }

  Session& session_;
  const models::LossOptions loss_;
  const models::Architecture& architecture_;
  std::unique_ptr<tensor::Slot> slot_;
  std::vector<Step> steps_;
  int lbs_ = 1;
  models::NamedTensors given_;
  std::vector<Series> forward_;
  std::vector<Series> backward_;
  std::vector<Series> update_;
  std::vector<std::vector<double>> output_bytes_;
  Series loss_forward_;
  Series loss_backward_;
};

}  // namespace

base::Result<std::unique_ptr<LayerTimer>> LayerTimer::open(Session& session, const models::LossOptions& loss) {
  return guarded([&]() -> base::Result<std::unique_ptr<LayerTimer>> {
    auto timer = std::make_unique<BlockTimer>(session, loss);
    YOKE_CHECK(timer->load());
    return std::unique_ptr<LayerTimer>(std::move(timer));
  });
}

double pass_ms(const profile::LayerGraph& graph) {
  double sum = 0;
  for (const auto& layer : graph.layers()) sum += layer.forward_ms + layer.backward_ms + layer.update_ms;
  return sum;
}

std::optional<base::Error> find_failing_block(Session& session, int lbs, const base::Clock& clock) {
  const auto timer = LayerTimer::open(session, {});
  if (!timer.ok()) return std::nullopt;
  const auto measured = (*timer)->measure(lbs, {.seconds = 0, .least = 1}, 0, clock);
  if (measured.ok() || measured.error().kind != base::ErrorKind::kInput) return std::nullopt;
  return measured.error();
}

}  // namespace yoke::profiler
