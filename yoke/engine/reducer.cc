#include "yoke/engine/reducer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "yoke/engine/collectives.h"

namespace yoke::engine {
namespace {

/// The track of the thread that reduces and updates, after those of the slots.
constexpr int kReducerThread = 100;

}  // namespace

base::Result<std::unique_ptr<Reducer>> Reducer::make(const std::string& name, const Layout& layout, Holding& holding,
                                                     comm::Group& group, tensor::Device& device, double speed,
                                                     const TraceSink& trace, const base::Deadline& deadline,
                                                     const base::Clock& clock) {
  std::unique_ptr<Reducer> reducer(new Reducer(layout, holding, group, device, speed, trace, clock));
  YOKE_CHECK(reducer->make_groups(name, deadline));
  reducer->number_buckets();
  return reducer;
}

Reducer::~Reducer() {
  // One that has failed has told the others already.
  for (const auto& subgroup : subgroups_) (void)subgroup->close().ok();
}

/// A group for the holders of each segment, in the order of segments; segments with the same holders share one.
base::Status Reducer::make_groups(const std::string& name, const base::Deadline& deadline) {
  segment_groups_.assign(layout_.schedule().segments.size(), nullptr);
  std::map<std::vector<int>, comm::Group*> known;
  if (!layout_.runs_on()) {
    std::vector<int> everyone(static_cast<std::size_t>(group_.size()));
    std::iota(everyone.begin(), everyone.end(), 0);
    known[everyone] = &group_;
  }
  for (std::size_t i = 0; i < segment_groups_.size(); ++i) {
    const auto ranks = layout_.ranks_of(i);
    if (ranks.size() < 2 || std::ranges::find(ranks, group_.rank()) == ranks.end()) continue;
    auto& found = known[ranks];
    if (found == nullptr) {
      YOKE_TRY(auto made, group_.subgroup(fmt::format("segment-{}-{}", i, name), ranks, deadline));
      found = made.get();
      subgroups_.push_back(std::move(made));
    }
    segment_groups_[i] = found;
  }
  return {};
}

/// Buckets of this rank are numbered through; in the schedule they count within their segment.
void Reducer::number_buckets() {
  first_bucket_.assign(segment_groups_.size(), 0);
  const auto& parameters = holding_.parameters();
  std::vector<int> counts(segment_groups_.size());
  std::vector<std::size_t> parameter_of(parameters.buckets().size());
  for (std::size_t i = 0; i < parameters.count(); ++i) parameter_of[parameters.place(i).bucket] = i;
  for (std::size_t bucket = 0; bucket < parameter_of.size(); ++bucket) {
    const std::size_t segment = layout_.segment_of(parameters.block(parameter_of[bucket]));
    if (counts[segment]++ == 0) first_bucket_[segment] = bucket;
    bucket_segment_.push_back(segment);
  }
  for (const int segment : layout_.own().segments) bucket_counts_.push_back(counts[static_cast<std::size_t>(segment)]);
}

std::size_t Reducer::bucket_of(const plan::ScheduleOp& op) const {
  return first_bucket_[static_cast<std::size_t>(op.segment)] + static_cast<std::size_t>(op.bucket);
}

base::Status Reducer::wait_for_all(const base::Deadline& deadline) {
  for (std::size_t i = 0; i < bucket_segment_.size(); ++i)
    YOKE_CHECK(holding_.gradients().wait(i, after_peers(deadline)));
  return {};
}

base::Status Reducer::reduce(const plan::ScheduleOp& op, const base::Deadline& deadline) {
  const std::size_t bucket = bucket_of(op);
  const auto begin = clock_.now();
  auto& gradients = holding_.gradients();
  YOKE_CHECK(gradients.wait(bucket, after_peers(deadline)));
  const auto ready = clock_.now();
  trace_.span(kReducerThread, "wait for gradients", "wait", begin, ready);
  const auto& flat = holding_.parameters().buckets()[bucket].gradients;
  comm::Group* among = segment_groups_[bucket_segment_[bucket]];
  // Only the group of all ranks can tell whether a member is late because it waits for a rank of another stage.
  const auto by = among == &group_ ? deadline : after_peers(deadline);
  if (gradients.reproducible()) {
    if (among != nullptr) {
      YOKE_CHECK(comm::reproducible_all_reduce(gradients.sum(bucket), floats_of(flat), *among, by));
    } else {
      YOKE_CHECK(gradients.sum(bucket).finish(floats_of(flat)));
    }
  } else if (among != nullptr) {
    YOKE_CHECK(all_reduce(flat, *among, by));
  }
  trace_.span(kReducerThread, fmt::format("all-reduce {}", bucket), "communicate", ready, clock_.now());
  return {};
}

void Reducer::update(const plan::ScheduleOp& op, const Update& how) {
  const std::size_t bucket = bucket_of(op);
  const auto begin = clock_.now();
  holding_.optimizer().update(bucket, how);
  // The next passes run on streams of their own, which do not wait for this thread's.
  updated_->record();
  updated_->block();
  wait_as_slow_device(speed_, clock_.now() - begin);
  trace_.span(kReducerThread, fmt::format("update {}", bucket), "update", begin, clock_.now());
}

base::Result<double> Reducer::squared_norm(const base::Deadline& deadline) {
  std::vector<double> squares(layout_.block_count());
  const auto& parameters = holding_.parameters();
  for (std::size_t i = 0; i < parameters.count(); ++i) {
    const std::size_t block = parameters.block(i);
    if (layout_.ranks_of(layout_.segment_of(block)).front() != group_.rank() && !layout_.data_only()) continue;
    squares[block] += engine::squared_norm(parameters.gradient(i).flatten());
  }
  if (!layout_.data_only()) YOKE_CHECK(group_.run(comm::all_reduce(std::span(squares)), deadline));
  return std::accumulate(squares.begin(), squares.end(), 0.0);
}

base::Status Reducer::share_buffers(const base::Deadline& deadline) {
  for (const int segment : layout_.own().segments) {
    const auto at = static_cast<std::size_t>(segment);
    const auto& blocks = layout_.blocks_of(at);
    const auto buffers = holding_.parameters().flat_buffers(blocks.first, blocks.last);
    if (segment_groups_[at] == nullptr || buffers.numel() == 0) continue;
    const auto ranks = layout_.ranks_of(at);
    const auto root = std::ranges::find(ranks, layout_.leader_of(at)) - ranks.begin();
    YOKE_CHECK(broadcast(buffers, static_cast<int>(root), *segment_groups_[at], deadline));
  }
  return {};
}

void Reducer::abort(const std::string& reason) {
  for (const auto& subgroup : subgroups_) {
    if (!subgroup->failure()) subgroup->abort(reason);
  }
}

}  // namespace yoke::engine
