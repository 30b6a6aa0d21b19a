#include "yoke/engine/snapshot.h"

#include <fmt/format.h>

#include <cmath>

#include "yoke/comm/op.h"
#include "yoke/engine/exchange.h"
#include "yoke/engine/tensor_copies.h"

namespace yoke::engine {
namespace {

bool all_finite(const Parameters& parameters) {
  for (std::size_t i = 0; i < parameters.count(); ++i) {
    const auto weight = parameters.weight(i).detach();
    if (weight.numel() == 0) continue;
    const auto [least, most] = torch::aminmax(weight);  // NaN if there is one
    if (!std::isfinite(least.item<float>()) || !std::isfinite(most.item<float>())) return false;
  }
  return true;
}

/// Whether this rank holds only a part of the model, as others do.
bool is_part(const SnapshotSource& from) {
  return from.layout != nullptr && !from.layout->data_only();
}

/// A step may have a finite loss and yet an update that ruins the weights. Ranks of pipelines hear of each other's
/// weights; ranks of data lanes all have the same. Buffers may hold infinities by design, e.g. a mask.
base::Status check_finite(const SnapshotSource& from, const Until& until) {
  std::int64_t bad = all_finite(from.holding.parameters()) ? 0 : 1;
  if (is_part(from)) {
    YOKE_CHECK(from.group->run(comm::all_reduce(std::span(&bad, 1), comm::Reduction::kMax), until()));
  }
  if (bad == 0) return {};
  return base::input_error(
      fmt::format("the weights are not finite after step {} (lr {:g}), so they are not saved; checkpoints from "
                  "before are kept. {}",
                  from.progress.cursor.step, from.progress.last_rate, kWhatHelps));
}

CheckpointMeta meta_of(const SnapshotSource& from) {
  const TrainingProgress& progress = from.progress;
  CheckpointMeta meta{.model = from.architecture.name,
                      .cursor = progress.cursor,
                      .seed = static_cast<std::uint64_t>(from.job.seed),
                      .updates = progress.updates,
                      .train_loss = progress.last_loss,
                      .batches = progress.batches};
  if (progress.loss_scale) meta.loss_scale = progress.loss_scale->state();
  return meta;
}

void add_copies(NamedTensors& to, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) to.emplace_back(name, tensor.detach().cpu().contiguous());
}

void add_block(Checkpoint& to, const Holding& holding, std::size_t block) {
  add_copies(to.weights, holding.weights(block));
  add_copies(to.optimizer, holding.state(block));
}

/// Each block comes from the first rank that holds it; on rank 0 they are added to the checkpoint.
base::Status gather_at_rank_0(const SnapshotSource& from, Checkpoint& checkpoint, const base::Deadline& deadline) {
  const auto owner = [&](std::size_t block) { return from.layout->ranks_of(from.layout->segment_of(block)).front(); };
  const std::size_t blocks = from.architecture.blocks.size();
  if (from.group->rank() == 0) {
    for (std::size_t block = 0; block < blocks; ++block) {
      if (owner(block) == 0) add_block(checkpoint, from.holding, block);
    }
  }
  const auto take = [&](std::size_t block, const torch::Tensor& packed) -> base::Status {
    YOKE_TRY(const auto part,
             Holding::make(from.architecture, from.job, {.first = block, .last = block + 1}, from.device));
    part->unpack(block, packed);
    add_block(checkpoint, *part, block);
    return {};
  };
  return gather_blocks(from.holding, blocks, owner, take, *from.group, deadline);
}

}  // namespace

base::Result<Checkpoint> take_snapshot(const SnapshotSource& from, const Until& until) {
  YOKE_CHECK(check_finite(from, until));
  Checkpoint checkpoint;
  checkpoint.meta = meta_of(from);
  if (is_part(from)) {
    YOKE_CHECK(gather_at_rank_0(from, checkpoint, until()));
  } else if (from.group == nullptr || from.group->rank() == 0) {
    add_copies(checkpoint.weights, from.holding.weights());
    add_copies(checkpoint.optimizer, from.holding.state());
  }
  return checkpoint;
}

base::Status restore_snapshot(const Checkpoint& checkpoint, const std::string& where,
                              const models::Architecture& architecture, const data::Sampler& sampler, Holding& holding,
                              TrainingProgress& progress) {
  const CheckpointMeta& meta = checkpoint.meta;
  YOKE_CHECK(check_model(meta, architecture.name, where));
  YOKE_TRY(const auto weights, TensorCopies::match(holding.weights(), checkpoint.weights, where));
  YOKE_TRY(const auto state, TensorCopies::match(holding.state(), checkpoint.optimizer, where));
  weights.copy();
  state.copy();
  progress.cursor = meta.cursor;
  progress.updates = meta.updates;
  progress.last_loss = meta.train_loss;
  progress.batches = meta.batches;
  if (progress.loss_scale && meta.loss_scale) progress.loss_scale->set(*meta.loss_scale);
  progress.total_samples = meta.cursor.epoch * sampler.size() + meta.cursor.consumed;
  return {};
}

base::Status load_weights(const NamedTensors& weights, const std::string& where, Holding& holding) {
  YOKE_TRY(const auto copies, TensorCopies::match(holding.weights(), weights, where));
  copies.copy();
  return {};
}

}  // namespace yoke::engine
