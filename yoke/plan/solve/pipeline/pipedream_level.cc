#include "yoke/plan/solve/pipeline/pipedream_level.h"

#include <algorithm>

#include "yoke/base/error.h"

namespace yoke::plan {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}

}  // namespace

// The operations below are in the order of the original: another order would change the last digits.

double PipedreamLevel::unsplit(int first, int last, int m) const {
  if (m > max_replicas()) return kUndefined;
  const double parameters = states->segment(states->parameter_bytes, first, last);
  if (memory_bytes) {
    const double held = states->segment(states->activation_bytes, first, last) + parameters;
    if (ceil_div(machines - m, m) * held > *memory_bytes) return kUndefined;
  }
  const double all_reduce = (4 * (m - 1) * parameters) / (bytes_per_s * m);
  return (single->at(first, last) + all_reduce / machines_within) / m;
}

double PipedreamLevel::back(int k, int j, int q) const {
  if (!test(states->successors.row(k), j)) return kUndefined;
  const double parameters = states->parameter_bytes[at(j)] - states->parameter_bytes[at(k)];
  double time = (single->at(k + 1, j) + (4 * (q - 1) * parameters) / (bytes_per_s * q)) / q;
  if (compression) {
    time = std::max(time, ((2.0 * states->augmented_bytes[at(k)]) / (bytes_per_s * q)) / *compression);
    if (j < states->count - 1) {
      time = std::max(time, ((2.0 * states->augmented_bytes[at(j)]) / (bytes_per_s * q)) / *compression);
    }
  }
  return time;
}

bool PipedreamLevel::fits(int k, int j, int q, int m) const {
  if (!memory_bytes) return true;
  const double held =
      states->segment(states->activation_bytes, k + 1, j) + states->segment(states->parameter_bytes, k + 1, j);
  return ceil_div(machines - m, q) * held <= *memory_bytes;
}

PipedreamRow::PipedreamRow(const PipedreamLevel& level, int first, int end)
    : level_(level), first_(first), end_(end), values_(at(level.machines + 1) * at(end - first), kUndefined) {
  const int machines = level_.machines;
  for (int j = first_; j < end_; ++j) {
    for (int m = 1; m <= machines; ++m) values_[index(j, m)] = level_.unsplit(first_, j, m);
  }
  // No part of the best plan is slower than the whole, so what exceeds the unsplit time need not be followed.
  const double bound = values_[index(end_ - 1, machines)];
  for (int k = first_; k < end_; ++k) {
    finish(k);
    int least_machines = 1;
    while (least_machines < machines && !(seconds(k, least_machines) <= bound)) ++least_machines;
    for (int j = k + 1; j < end_; ++j) {
      if (test(level_.states->successors.row(k), j)) offer(k, j, least_machines, bound);
    }
  }
}

/// Nothing more will be offered to state k: only fewer machines can still be better.
void PipedreamRow::finish(int k) {
  if (!level_.fewer || k == first_) return;
  for (int m = 2; m <= level_.machines; ++m) {
    values_[index(k, m)] = std::min(values_[index(k, m)], values_[index(k, m - 1)]);
  }
}

/// Offers A(first, k, *), of use from `least_machines` on, as the rest before a last stage (k+1,j).
void PipedreamRow::offer(int k, int j, int least_machines, double bound) {
  const int machines = level_.machines;
  for (int q = 1; q <= std::min(level_.max_replicas(), machines - least_machines); ++q) {
    const double back = level_.back(k, j, q);
    if (back == kUndefined || back > bound) continue;
    int m = q + least_machines;
    while (m <= machines && !level_.fits(k, j, q, m)) ++m;
    if (m > machines) continue;
    bottleneck_accumulate(&values_[index(k, m - q)], back, &values_[index(j, m)], machines - m + 1);
  }
}

PipedreamRow::Stage PipedreamRow::take_last_stage(int& last, int& m) const {
  const int end = last + 1;
  const double value = seconds(last, m);
  if (value == level_.unsplit(first_, last, m)) {
    const int replicas = m;
    m = 0;
    return {first_, end, replicas};
  }
  if (level_.fewer && last > first_ && m > 1 && value == seconds(last, m - 1)) {
    --m;
    return take_last_stage(last, m);
  }
  for (int k = first_; k < last; ++k) {
    for (int q = 1; q <= std::min(level_.max_replicas(), m - 1); ++q) {
      const double time = std::max(seconds(k, m - q), level_.back(k, last, q));
      if (time != value || !level_.fits(k, last, q, m)) continue;
      last = k;
      m -= q;
      return {k + 1, end, q};
    }
  }
  throw base::Failure({.kind = base::ErrorKind::kInternal, .message = "no split explains the time of a segment"});
}

std::vector<PipedreamRow::Stage> PipedreamRow::stages() const {
  std::vector<Stage> result;
  int last = end_ - 1;
  for (int m = level_.machines; m > 0;) result.push_back(take_last_stage(last, m));
  std::ranges::reverse(result);
  return result;
}

}  // namespace yoke::plan
