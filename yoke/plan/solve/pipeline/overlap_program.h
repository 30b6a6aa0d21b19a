// The dynamic program behind overlap.h: over the states of a graph and the devices in use of every group.
//
// best(k, usage, place, source) is the value of the stages after state k (k = -1: of all) when they use `usage`, the
// first of them sits at `place` and gets its input from `source`. What a value is depends on the aim: the time of the
// slowest stage, or the seconds of the first minibatch among the plans whose stages keep it waiting for no more than a
// limit. States must be in ascending order of seconds (sorted_by_seconds). One thread.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "yoke/plan/solve/pipeline/cut_states.h"
#include "yoke/plan/solve/pipeline/overlap.h"
#include "yoke/plan/solve/pipeline/overlap_model.h"

namespace yoke::plan {

/// All ways to have some devices of each group in use, as numbers: 0 is none, the last is all.
class Usages {
 public:
  explicit Usages(const std::vector<DeviceGroup>& groups);

  int count() const { return count_; }
  int all() const { return count_ - 1; }
  int used(int usage, int group) const {
    return used_[static_cast<std::size_t>(usage) * strides_.size() + static_cast<std::size_t>(group)];
  }
  int devices(int usage) const { return devices_[static_cast<std::size_t>(usage)]; }
  /// Devices of the profile that would be as fast.
  double capacity(int usage) const { return capacity_[static_cast<std::size_t>(usage)]; }
  /// Of all devices together; infinite when one has no limit.
  double memory_bytes(int usage) const { return memory_bytes_[static_cast<std::size_t>(usage)]; }
  int without(int usage, int group, int q) const { return usage - q * strides_[static_cast<std::size_t>(group)]; }

 private:
  int count_ = 1;
  std::vector<int> strides_;
  std::vector<int> used_;
  std::vector<int> devices_;
  std::vector<double> capacity_;
  std::vector<double> memory_bytes_;
};

/// The states in ascending order of seconds, so that the ends of a stage of bounded compute are next to each other.
/// A state never has less seconds than one inside it: sums of the same numbers in the same order round alike.
CutStates sorted_by_seconds(const CutStates& states);

/// Work that may still be done. Counted, not timed: same input, same answer.
struct OverlapEffort {
  std::int64_t left = 0;
  bool used_up() const { return left <= 0; }
};

class OverlapProgram {
 public:
  enum class Aim {
    kPace,   // the time of the slowest stage
    kFirst,  // the seconds of the first minibatch
  };
  /// Plans beyond a limit are not followed: an answer is right if it keeps to them, else there is none.
  struct Limits {
    double pace = std::numeric_limits<double>::infinity();   // of every stage: seconds per minibatch
    double extra = std::numeric_limits<double>::infinity();  // of every stage: what it adds to the first minibatch
    double first = std::numeric_limits<double>::infinity();  // of the plan: seconds of the first minibatch
  };
  /// Takes from `effort`; when that is used up there is no plan. All are borrowed and outlive the program.
  OverlapProgram(const CutStates& states, const OverlapOptions& options, const Usages& usages, Aim aim, Limits limits,
                 OverlapEffort& effort);

  /// A choice of the first stage after a state, and what must follow.
  struct Choice {
    int last = 0;  // the state the stage ends with
    int q = 1;
    StagePlace place;
    StagePlace next;            // meaningless for the last stage
    double alone_seconds = 0;   // of one minibatch on one device
    double overlapped = 0;      // the larger of compute and all-reduce, per minibatch
    double output_seconds = 0;  // of one minibatch to the next stage
    double rest = 0;            // the value of the later stages
  };
  struct Plan {
    double value = std::numeric_limits<double>::infinity();
    int usage = 0;
    std::vector<Choice> stages;
    bool found() const { return !stages.empty(); }
  };
  /// The best plan, if there is one within the limits.
  Plan plan() const;

 private:
  // Where the input of a stage comes from: a group over the links between nodes, the same node, or nowhere.
  int sources() const { return groups_ + 2; }
  int same_node() const { return groups_; }
  int nowhere() const { return groups_ + 1; }
  int places() const { return 2 * groups_; }
  static int number(const StagePlace& place) { return 2 * place.group + (place.spans_nodes ? 1 : 0); }
  static StagePlace place_of(int number) { return {number / 2, number % 2 == 1}; }

  std::size_t row(int k, int usage) const {
    return static_cast<std::size_t>(k + 1) * static_cast<std::size_t>(usages_.count()) +
           static_cast<std::size_t>(usage);
  }
  std::size_t cell(int k, int usage, const StagePlace& place, int source) const {
    return (row(k, usage) * static_cast<std::size_t>(places()) + static_cast<std::size_t>(number(place))) *
               static_cast<std::size_t>(sources()) +
           static_cast<std::size_t>(source);
  }

  double input_seconds(int k, const StagePlace& place, int source) const;
  /// Of the stage and those after it; infinite beyond the limits.
  double value(const Choice& choice, int k, int source) const;
  /// A value that no plan with these falls below.
  double least(const Choice& choice, double least_after) const {
    return aim_ == Aim::kPace ? std::max(choice.overlapped, least_after) : choice.alone_seconds + least_after;
  }
  bool may_follow(int k, int usage) const;
  int fewest_replicas(double compute, int group) const;
  /// Visits the choices that `wanted(place, least)` asks for, where `least` is a value that none of them falls below.
  template <typename Wanted, typename Visit>
  void for_each_choice(int k, int usage, Wanted wanted, Visit visit) const;
  template <typename Visit>
  void for_each_next(Choice& choice, int usage_after, Visit visit) const;
  void fill(int k);

  const CutStates& states_;
  OverlapModel model_;
  const Usages& usages_;
  Aim aim_;
  Limits limits_;
  OverlapEffort& effort_;
  int groups_;
  int last_;  // the last state
  double fastest_ = 0;
  std::vector<double> cells_;
  std::vector<double> least_;  // of the cells of each state and usage
};

}  // namespace yoke::plan
