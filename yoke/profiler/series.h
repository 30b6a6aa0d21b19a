// Repeated measurements of one number: the median and how sure it is. One slow step moves neither much.
#pragma once

#include <vector>

#include "yoke/profile/profile.h"

namespace yoke::profiler {

class Series {
 public:
  void add(double value) { values_.push_back(value); }
  int count() const { return static_cast<int>(values_.size()); }
  /// The mean of the two in the middle for an even count; 0 for none.
  double median() const;
  /// Half of the 95% interval of the median over the median, from the median absolute deviation. Infinite for fewer
  /// than 3 values.
  double spread() const;
  /// `noisy`: the spread is above `limit`.
  profile::Confidence confidence(double limit) const;

 private:
  std::vector<double> values_;
};

/// One of several visits to a measurement, at moments apart.
struct Visit {
  double ms = 0;
  profile::Confidence confidence;  // of this visit alone
};

struct Typical {
  std::size_t visit = 0;  // which of them counts
  profile::Confidence confidence;
};

/// The visit whose time is the middle one counts (of an even number, the quicker of the two: what disturbs makes
/// slower). The spread is half of what lies between the visits, over the time; of six or more, between the second and
/// the last but one, which hold the true median as surely as the ends of three do. One visit alone keeps its own.
/// Fewer than three steps in all are noisy, however well they agree. Precondition: one visit or more.
Typical typical_visit(const std::vector<Visit>& visits, double noisy);

/// When to stop measuring: as soon as the interval is tight, or when the time is up and there is enough to tell.
struct Patience {
  double seconds = 1;   // of measuring
  double tight = 0.02;  // spread
  int least = 3;        // values, whatever the time
  int least_tight = 5;  // values before a tight spread counts: few may agree by chance
  int most = 200;
  double least_seconds = 0;  // before a tight spread counts: short steps agree with each other for a moment

  bool enough(const Series& series, double spent_seconds) const {
    if (series.count() < least) return false;
    if (series.count() >= most || spent_seconds >= seconds) return true;
    return series.count() >= least_tight && spent_seconds >= least_seconds && series.spread() <= tight;
  }
};

}  // namespace yoke::profiler
