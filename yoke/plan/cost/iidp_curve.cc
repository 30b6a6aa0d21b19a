#include "yoke/plan/cost/iidp_curve.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

namespace yoke::plan {
namespace {

// From three workers at once on, the original fits a curve; below, it looks the gain up.
constexpr int kLeastFittedVsw = 3;

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

Line fit_line(const std::vector<double>& x, const std::vector<double>& y) {
  const double mean_x = mean(x);
  const double mean_y = mean(y);
  double covariance = 0;
  double variance = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    covariance += (x[i] - mean_x) * (y[i] - mean_y);
    variance += (x[i] - mean_x) * (x[i] - mean_x);
  }
  if (variance == 0) return {.slope = 0, .intercept = mean_y};
  const double slope = covariance / variance;
  return {.slope = slope, .intercept = mean_y - slope * mean_x};
}

double round_decimal(double value, int digits) {
  std::array<char, 400> text;  // the largest double has 309 digits before the point
  const auto written = std::to_chars(text.begin(), text.end(), value, std::chars_format::fixed, digits);
  double rounded = value;
  std::from_chars(text.begin(), written.ptr, rounded);
  return rounded;
}

base::Result<IidpCurve> IidpCurve::make(int lbs, const profile::LocalBatchProfile& measured, const base::Where& where) {
  if (measured.compute.empty() || measured.compute.front().vsw != 1) {
    return base::input_error("found no compute measurement of a single worker, expected one: profile with vsw 1",
                             where);
  }
  const auto& single = measured.compute.front();
  const auto& last = measured.compute.back();
  const auto compute_seconds = [](const profile::ComputeSample& sample) {
    return (sample.forward_ms + sample.backward_ms) / 1000;
  };

  IidpCurve curve;
  curve.lbs_ = lbs;
  curve.update_ = last.update_ms / 1000;
  curve.copy_ = last.vsw == 1 ? 0 : last.copy_ms / (last.vsw - 1) / 1000;
  curve.forward_ratio_ = last.forward_ms / (last.forward_ms + last.backward_ms);
  curve.bn_sync_ = last.bn_sync_ms / 1000;
  for (const auto& sample : measured.compute) curve.data_[sample.vsw] = sample.data_ms / 1000;

  const double rate = lbs / compute_seconds(single);
  curve.single_rate_ = round_decimal(rate, 2);
  // Slower than a sample in 200 s: the original would divide by the 0 it rounds to.
  if (curve.single_rate_ == 0) curve.single_rate_ = rate;
  std::vector<double> log_vsw;
  for (const auto& sample : measured.compute) {
    log_vsw.push_back(std::log(sample.vsw));
    curve.gains_.push_back(round_decimal(lbs * sample.vsw / compute_seconds(sample) / curve.single_rate_, 3));
  }
  curve.fitted_ = last.vsw >= kLeastFittedVsw;
  curve.max_vsw_ = measured.max_vsw.value_or(last.vsw);
  if (curve.fitted_) {
    curve.fit_ = fit_line(log_vsw, curve.gains_);
    // Extrapolated far enough, a falling curve promises no throughput at all: such counts are not offered.
    if (curve.fit_.slope < 0) {
      const double zero = std::exp(-curve.fit_.intercept / curve.fit_.slope);
      if (zero <= curve.max_vsw_) curve.max_vsw_ = static_cast<int>(zero);
    }
  } else {
    curve.max_vsw_ = std::min(curve.max_vsw_, last.vsw);
  }
  while (curve.max_vsw_ > 1 && curve.gain(curve.max_vsw_) <= 0) --curve.max_vsw_;
  if (curve.max_vsw_ < 1 || curve.gain(1) <= 0) {
    return base::input_error(
        "found times that grow so fast with vsw that one worker has no throughput, expected a "
        "gain near 1: profile again",
        where);
  }
  return curve;
}

double IidpCurve::gain(int vsw) const {
  if (fitted_) return fit_.slope * std::log(vsw) + fit_.intercept;
  return gains_[static_cast<std::size_t>(vsw - 1)];
}

double IidpCurve::compute_seconds(int vsw) const {
  const double seconds = static_cast<double>(lbs_) * vsw / (gain(vsw) * single_rate_);
  // The original rounds one kind of number with numpy (scaled, then to even) and the other with Python.
  const double rounded = fitted_ ? std::nearbyint(seconds * 1e4) / 1e4 : round_decimal(seconds, 4);
  return rounded > 0 ? rounded : seconds;
}

double IidpCurve::data_seconds(int vsw) const {
  const auto found = data_.find(vsw);
  return found != data_.end() ? found->second : data_.at(1) * vsw;
}

}  // namespace yoke::plan
