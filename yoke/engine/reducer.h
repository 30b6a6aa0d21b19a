// Adds up the gradients of a rank's blocks with all ranks that hold the same blocks, and updates the weights: bucket by
// bucket, in the order of the schedule.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/comm/group.h"
#include "yoke/engine/holding.h"
#include "yoke/engine/lane.h"
#include "yoke/engine/layout.h"

namespace yoke::engine {

/// One thread at a time uses it; with a layout that runs on, it may be another than the one that uses the whole group.
class Reducer {
 public:
  /// Every rank of `group` calls it, with `name` the same on all and used once; `speed` is the device's
  /// (LaneOptions). All that is given must outlive this.
  static base::Result<std::unique_ptr<Reducer>> make(const std::string& name, const Layout& layout, Holding& holding,
                                                     comm::Group& group, tensor::Device& device, double speed,
                                                     const TraceSink& trace, const base::Deadline& deadline,
                                                     const base::Clock& clock);

  /// Leaves its groups in good order: a slower rank that still finishes a step does not lose this one.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// By segment that this rank holds.
  const std::vector<int>& bucket_counts() const { return bucket_counts_; }

  /// Until all gradients of the step are there.
  base::Status wait_for_all(const base::Deadline& deadline);
  /// `op` is a kReduce or kUpdate of this rank's program.
  base::Status reduce(const plan::ScheduleOp& op, const base::Deadline& deadline);
  void update(const plan::ScheduleOp& op, const Update& how);
  /// The squared norm of the gradients of the whole model, added block by block in one order however it is cut.
  base::Result<double> squared_norm(const base::Deadline& deadline);
  /// Buffers, e.g. running means, become those of the rank that ran worker 0.
  base::Status share_buffers(const base::Deadline& deadline);
  /// Those that wait for this rank get the reason instead.
  void abort(const std::string& reason);

 private:
  Reducer(const Layout& layout, Holding& holding, comm::Group& group, tensor::Device& device, double speed,
          const TraceSink& trace, const base::Clock& clock)
      : layout_(layout),
        holding_(holding),
        group_(group),
        updated_(device.make_fence()),
        speed_(speed),
        trace_(trace),
        clock_(clock) {}
  base::Status make_groups(const std::string& name, const base::Deadline& deadline);
  void number_buckets();
  std::size_t bucket_of(const plan::ScheduleOp& op) const;

  const Layout& layout_;
  Holding& holding_;
  comm::Group& group_;
  const std::unique_ptr<tensor::Fence> updated_;
  const double speed_;
  const TraceSink& trace_;
  const base::Clock& clock_;
  std::vector<std::unique_ptr<comm::Group>> subgroups_;
  std::vector<comm::Group*> segment_groups_;  // by segment; null: this rank does not share it
  std::vector<int> bucket_counts_;
  std::vector<std::size_t> first_bucket_;    // by segment
  std::vector<std::size_t> bucket_segment_;  // by bucket
};

}  // namespace yoke::engine
