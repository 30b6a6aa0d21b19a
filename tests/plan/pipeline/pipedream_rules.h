// PipeDream's rules as a plain recursion that remembers what it has computed: short, and without tiles, bounds or
// threads. The oracle of the tests, and what the benchmark compares algorithm with algorithm by: our re-statement in
// C++, not the original program.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "yoke/plan/solve/pipeline/pipedream.h"

namespace yoke::plan {

class PipedreamRules {
 public:
  PipedreamRules(const CutStates& states, const PipedreamOptions& options) : states_(states), options_(options) {
    for (const auto& level : options.levels) most_machines_ = std::max(most_machines_, level.machines);
    const auto count = static_cast<std::size_t>(states.count);
    known_.resize(options.levels.size() * count * count * static_cast<std::size_t>(most_machines_ + 1),
                  std::numeric_limits<double>::quiet_NaN());
  }

  double answer() {
    return best(static_cast<int>(options_.levels.size()) - 1, 0, states_.count - 1, machines_of_last());
  }

 private:
  std::size_t index(int level, int i, int j, int m) const {
    const auto count = static_cast<std::size_t>(states_.count);
    const std::size_t segment =
        (static_cast<std::size_t>(level) * count + static_cast<std::size_t>(i)) * count + static_cast<std::size_t>(j);
    return segment * static_cast<std::size_t>(most_machines_ + 1) + static_cast<std::size_t>(m);
  }
  int machines_of_last() const { return options_.levels.back().machines; }

  /// C of the level.
  double single(int level, int i, int j) {
    if (level == 0) return states_.segment(states_.seconds, i, j);
    return best(level - 1, i, j, options_.levels[static_cast<std::size_t>(level - 1)].machines);
  }

  bool too_large(int i, int j, int after, int replicas) const {
    const int copies = static_cast<int>(std::ceil(static_cast<double>(after) / replicas));
    const double held =
        states_.segment(states_.activation_bytes, i, j) + states_.segment(states_.parameter_bytes, i, j);
    return options_.memory_bytes && copies * held > *options_.memory_bytes;
  }

  double best(int level, int i, int j, int m) {
    const std::size_t place = index(level, i, j, m);
    if (!std::isnan(known_[place])) return known_[place];
    const int machines = options_.levels[static_cast<std::size_t>(level)].machines;
    const double bandwidth = options_.levels[static_cast<std::size_t>(level)].bytes_per_s;
    const double within = level == 0 ? 1 : options_.levels[static_cast<std::size_t>(level - 1)].machines;
    double result = kNone;
    if ((m == 1 || !options_.straight) && !too_large(i, j, machines - m, m)) {
      const double parameters = states_.segment(states_.parameter_bytes, i, j);
      result = (single(level, i, j) + 4 * (m - 1) * parameters / (bandwidth * m) / within) / m;
    }
    if (m > 1 && j > i && options_.fewer) result = std::min(result, best(level, i, j, m - 1));
    for (int k = i; k < j; ++k) {
      if (!test(states_.successors.row(k), j)) continue;
      for (int q = 1; q < (options_.straight ? std::min(m, 2) : m); ++q) {
        if (too_large(k + 1, j, machines - m, q)) continue;
        const double parameters = states_.segment(states_.parameter_bytes, k + 1, j);
        double time = (single(level, k + 1, j) + 4 * (q - 1) * parameters / (bandwidth * q)) / q;
        if (options_.compression) {
          const auto transfer = [&](int state) {
            return 2.0 * states_.augmented_bytes[static_cast<std::size_t>(state)] / (bandwidth * q) /
                   *options_.compression;
          };
          time = std::max(time, transfer(k));
          if (j < states_.count - 1) time = std::max(time, transfer(j));
        }
        result = std::min(result, std::max(time, best(level, i, k, m - q)));
      }
    }
    known_[place] = result;
    return result;
  }

  static constexpr double kNone = std::numeric_limits<double>::infinity();
  const CutStates& states_;
  const PipedreamOptions& options_;
  int most_machines_ = 1;
  std::vector<double> known_;  // NaN: not computed yet
};

}  // namespace yoke::plan
