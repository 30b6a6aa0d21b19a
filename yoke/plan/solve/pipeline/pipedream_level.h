// One level of PipeDream's dynamic program: the cost formulas, digit for digit, and the two ways to evaluate them.
//
// With C(i,j) the time of the segment (i,j) on one machine of the level, A(i,j,m) is its time on m machines: the best
// of
//  - one stage on m replicas,
//        (C + [4 (m-1) Par / (B m)] / W) / m,
//  - a last stage (k+1,j) on q replicas behind the rest A(i,k,m-q), for every state k from which j can be reached,
//        max(A(i,k,m-q), (C(k+1,j) + 4 (q-1) Par(k+1,j) / (B q)) / q, transfers at k and at j over q links).
// The second term does not depend on i: it is called back(q,k,j) here, and the splits of all segments are a bottleneck
// product (tile.h). Only values are computed. The choice behind a value is found again when a plan is read off: the
// first that attains it, in the order unsplit, fewer machines, k ascending, q ascending, which is what comparing with a
// strict `<` in that order selects.
#pragma once

#include <optional>
#include <vector>

#include "yoke/plan/solve/pipeline/cut_states.h"
#include "yoke/plan/solve/pipeline/tile.h"

namespace yoke::plan {

struct PipedreamLevel {
  int machines = 1;            // M
  double bytes_per_s = 0;      // B
  int machines_within = 1;     // W: machines of the level below, 1 for the innermost
  const CutStates* states;     // borrowed; outlives the level
  const SegmentTable* single;  // C; borrowed; outlives the level
  std::optional<double> memory_bytes;
  std::optional<double> compression;  // absent: transfers are free
  bool straight = false;              // no replicas
  bool fewer = false;                 // machines may stay unused

  /// The most replicas a stage may have.
  int max_replicas() const { return straight ? 1 : machines; }
  /// One stage on m machines; kUndefined where not allowed.
  double unsplit(int first, int last, int m) const;
  /// back(q,k,j) for k < j without the memory limit; kUndefined where j cannot be reached from k.
  double back(int k, int j, int q) const;
  /// Whether the last stage (k+1,j) on q replicas fits when m machines are used up to and including it. If it does for
  /// one m, it does for every larger one.
  bool fits(int k, int j, int q, int m) const;
};

/// A(first, j, m) for one `first` and all j in [first, end).
class PipedreamRow {
 public:
  PipedreamRow(const PipedreamLevel& level, int first, int end);

  double seconds(int last, int m) const { return values_[index(last, m)]; }

  /// A stage [first, end) of states on `replicas` machines.
  struct Stage {
    int first = 0;
    int end = 0;
    int replicas = 1;
  };
  /// The stages behind A(first, end-1, M), first to last. Its value must be defined.
  std::vector<Stage> stages() const;

 private:
  std::size_t index(int last, int m) const {
    return static_cast<std::size_t>(last - first_) * static_cast<std::size_t>(level_.machines + 1) +
           static_cast<std::size_t>(m);
  }
  void finish(int k);
  void offer(int k, int j, int least_machines, double bound);
  /// Replaces `last` and `m` by the state and the machines before the last stage, m = 0 when there is none before it.
  Stage take_last_stage(int& last, int& m) const;

  const PipedreamLevel& level_;
  int first_;
  int end_;
  std::vector<double> values_;  // by state, then m (0 unused)
};

/// A(i, j, M) for all segments: what the next level takes as its C. Uses `threads` threads; the result does not depend
/// on their number.
SegmentTable solve_all_segments(const PipedreamLevel& level, int threads);

}  // namespace yoke::plan
