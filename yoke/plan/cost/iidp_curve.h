// IIDP's model of one device at one local batch size: how long `vsw` workers at once compute, load, update and copy.
// The roundings are the original's; they decide which plan wins, so they are kept to the digit. Immutable value.
#pragma once

#include <map>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/profile/profile.h"

namespace yoke::plan {

/// y = slope * x + intercept.
struct Line {
  double slope = 0;
  double intercept = 0;
};

/// Ordinary least squares; a flat line through the mean when all x are equal. At least one point.
Line fit_line(const std::vector<double>& x, const std::vector<double>& y);

/// `value` to `digits` decimals as Python's round() does it: by the exact value of the double, ties to even.
double round_decimal(double value, int digits);

class IidpCurve {
 public:
  /// `measured` must be valid (profile::validate). Input error when it has no measurement of one worker.
  static base::Result<IidpCurve> make(int lbs, const profile::LocalBatchProfile& measured, const base::Where& where);

  /// The largest number of workers at once that the memory holds and the measurements cover.
  int max_vsw() const { return max_vsw_; }
  /// Forward and backward of one round of `vsw` workers.
  double compute_seconds(int vsw) const;
  double data_seconds(int vsw) const;
  double forward_ratio() const { return forward_ratio_; }
  double backward_ratio() const { return 1 - forward_ratio_; }
  double bn_sync_seconds() const { return bn_sync_; }
  double update_seconds() const { return update_; }
  /// Copying the new weights to one more worker.
  double copy_seconds() const { return copy_; }
  /// Samples per second of a single worker, to two decimals.
  double single_rate() const { return single_rate_; }

 private:
  IidpCurve() = default;
  /// Samples per second of `vsw` workers over those of one.
  double gain(int vsw) const;

  int lbs_ = 1;
  int max_vsw_ = 1;
  double single_rate_ = 0;
  bool fitted_ = false;        // three workers or more were measured: gain is a line over ln(vsw)
  Line fit_;                   // if fitted
  std::vector<double> gains_;  // if not: of 1 .. max workers
  std::map<int, double> data_;
  double forward_ratio_ = 0;
  double bn_sync_ = 0;
  double update_ = 0;
  double copy_ = 0;
};

}  // namespace yoke::plan
