// What ranks tell each other between steps: that they mean the same plan, and the state of the model, which moves block
// by block to whom a plan newly gives a block, to a rank that is behind, and to the rank that writes a checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/comm/group.h"
#include "yoke/engine/holding.h"
#include "yoke/plan/plan.h"

namespace yoke::engine {

/// Every rank calls it. Input error on all of them, which names the first difference, unless all were given the same.
base::Status same_plan(const plan::Plan& plan, comm::Group& group, const base::Deadline& deadline);

/// What a rank brings: the blocks it holds under the plan to come, those it held before (may be null), and how far they
/// are, in steps: a step may make no update, and yet move the cursor and the buffers. Blocks of `now` that were not in
/// `before` are fresh from the seed: `fresh` says that this is their state.
struct Standing {
  Holding* now = nullptr;
  const Holding* before = nullptr;
  bool fresh = true;
  std::int64_t steps = 0;
};

/// Every rank calls it. Afterwards all ranks have, in each block they hold now, the state of the lowest rank among
/// those that have done most steps. `numbers` are compared and, where they differ, replaced by the source's. Peer
/// error if nobody has some block as far.
base::Status agree(const Standing& standing, std::vector<std::int64_t>& numbers, std::size_t blocks, comm::Group& group,
                   const base::Deadline& deadline);

/// Every rank calls it. Rank 0 is given every block that it does not hold, packed, by the rank `owner_of(block)`.
base::Status gather_blocks(const Holding& holding, std::size_t blocks,
                           const std::function<int(std::size_t block)>& owner_of,
                           const std::function<base::Status(std::size_t block, const torch::Tensor& packed)>& take,
                           comm::Group& group, const base::Deadline& deadline);

}  // namespace yoke::engine
