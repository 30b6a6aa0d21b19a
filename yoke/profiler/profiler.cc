#include "yoke/profiler/profiler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <thread>

#include "yoke/base/units.h"
#include "yoke/plan/cost/iidp_model.h"
#include "yoke/profiler/budget.h"
#include "yoke/profiler/folder.h"
#include "yoke/profiler/layers.h"
#include "yoke/profiler/memory_search.h"
#include "yoke/profiler/series.h"
#include "yoke/profiler/session.h"
#include "yoke/tensor/memory.h"

namespace yoke::profiler {
namespace {

using base::Result;
using base::Status;

constexpr double kNoisy = 0.05;    // a spread that the profile warns of
constexpr int kMemorySteps = 2;    // the second has the samples of coming steps in memory too
constexpr int kMemoryWorkers = 3;  // by which the memory of one more is measured
constexpr int kExtraRounds = 2;    // by which the time of a further round is measured
constexpr double kWarmUpSeconds = 0.1;
constexpr double kLeastSeconds = 0.2;  // of one measurement that ends early
constexpr int kVisits = 3;             // of one measurement, with all others between them
constexpr int kMostVisits = 6;         // where those do not agree
constexpr int kFloorSteps = 2;         // of a visit, however slow: one that does not count, and one that does
constexpr int kCompanyBatch = 8;

/// Limits what tensors may take for the time of a scope.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::int64_t bytes) { tensor::limit_cpu_memory(bytes); }
  ~MemoryLimit() { tensor::limit_cpu_memory(std::numeric_limits<std::int64_t>::max()); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
};

/// The numbers of workers at once that IIDP samples.
std::vector<int> sampled_vsw(int most) {
  if (most <= 1) return {1};
  if (most <= 3) return {1, most};
  return {1, most / 2, most};
}

std::string_view name_of(plan::OptimizerName name) {
  switch (name) {
    case plan::OptimizerName::kSgd:
      return "sgd";
    case plan::OptimizerName::kAdam:
      return "adam";
    case plan::OptimizerName::kAdamW:
      return "adamw";
    case plan::OptimizerName::kLamb:
      return "lamb";
  }
  return "";
}

std::string_view name_of(plan::Precision precision) {
  switch (precision) {
    case plan::Precision::kFp32:
      return "fp32";
    case plan::Precision::kBf16:
      return "bf16";
    case plan::Precision::kFp16:
      return "fp16";
  }
  return "";
}

/// Everything that times depend on besides model, device and local batch.
std::string setup_of(const Subject& subject, const Session& session) {
  const auto& info = session.data().info();
  return fmt::format("{} {}, {} classes, {}, {}{}, {} threads, speed {:g}", info.name, fmt::join(info.input_shape, "x"),
                     subject.job.model.classes.value_or(info.classes), name_of(subject.job.optimizer.name),
                     name_of(subject.job.precision), subject.job.reproducible ? ", reproducible" : "",
                     subject.device.threads, subject.device.speed);
}

/// One call of measure().
class Profiling {
 public:
  Profiling(const Request& request, Helpers& helpers, Observer& observer, const base::Clock& clock)
      : request_(request),
        subject_(request.subject),
        helpers_(helpers),
        observer_(observer),
        clock_(clock),
        limit_(request.subject.device.memory_bytes),
        begin_(clock.now()),
        budget_(request.budget, clock) {}

  Result<Report> run() {
    YOKE_CHECK(open());
    YOKE_CHECK(wait_for_pause());
    std::vector<int> sizes = request_.lbs;
    if (sizes.empty()) {
      for (const auto& [lbs, measured] : folder_->node().by_lbs) sizes.push_back(lbs);
      if (sizes.empty() && wants(Part::kMemory)) sizes.push_back(1);
      if (sizes.empty() && (wants(Part::kCompute) || wants(Part::kLayers))) {
        return base::input_error("found none and no memory profile in the folder, expected local batch sizes",
                                 {.field = "lbs"});
      }
    }
    const int visits = kVisits * ((wants(Part::kCompute) ? 3 : 0) + (wants(Part::kLayers) ? 1 : 0));
    total_ =
        static_cast<int>(sizes.size()) * ((wants(Part::kMemory) ? 1 : 0) + visits) + (wants(Part::kBuckets) ? 1 : 0);
    Report report;
    if (wants(Part::kBuckets)) YOKE_CHECK(buckets(report));
    if (wants(Part::kMemory)) YOKE_CHECK(memory(sizes));
    std::erase_if(sizes, [&](int lbs) { return most_vsw(lbs) == 0; });
    if (sizes.empty() && !stopped_ && !request_.lbs.empty()) return nothing_fits();
    YOKE_CHECK(times(sizes, report));
    observer_.on_progress(total_, total_, "");
    report.model = subject_.job.model.name;
    report.node = folder_->node();
    report.asked = sizes;
    report.measured = measured_;
    report.kept = kept_;
    report.interrupted = stopped_;
    report.seconds = base::to_seconds(clock_.now() - begin_);
    return report;
  }

 private:
  bool wants(Part part) const { return request_.parts.contains(part); }

  Status open() {
    YOKE_TRY(Session * session, opened(wants(Part::kMemory)));
    YOKE_TRY(Folder folder, Folder::open(request_.out,
                                         {.model = subject_.job.model.name,
                                          .node = subject_.device.id.node,
                                          .device_type = subject_.device.type,
                                          .setup = setup_of(subject_, *session)},
                                         request_.again));
    folder_ = std::move(folder);
    return {};
  }

  /// The session, opened anew where a failed step has spoilt the last one. `meet`: its workers' activations are all
  /// there at one moment, for the most memory; not for times.
  Result<Session*> opened(bool meet = false) {
    if (session_ && meets_ == meet) return session_.get();
    session_.reset();
    YOKE_TRY(session_, Session::open(subject_, meet, clock_));
    meets_ = meet;
    building_ = session_->take_peak_bytes();
    return session_.get();
  }

  bool stops() {
    stopped_ = stopped_ || observer_.stop_requested();
    return stopped_;
  }

  Status wait_for_pause() {
    const auto began = clock_.now();
    while (clock_.now() < began + request_.pause && !stops()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    budget_.exclude(clock_.now() - began);
    return {};
  }

  void begin(const std::string& what) { observer_.on_progress(std::min(done_, total_), total_, what); }
  void keep(int pieces = 1) {
    done_ += pieces;
    kept_ += pieces;
  }
  void finish() {
    ++done_;
    ++measured_;
  }

  profile::LocalBatchProfile& at(int lbs) { return folder_->node().by_lbs[lbs]; }

  /// Workers at once that times are measured for: what memory allows, as far as that is known.
  int most_vsw(int lbs) {
    const auto found = folder_->node().by_lbs.find(lbs);
    const bool known = found != folder_->node().by_lbs.end() && found->second.max_vsw;
    return known ? std::min(*found->second.max_vsw, request_.compute_vsw) : request_.compute_vsw;
  }

  base::Error nothing_fits() {
    const std::string limit = limit_ ? base::format(base::Bytes{*limit_}) : "the device";
    std::string needs;
    if (session_) {
      needs = fmt::format("; weights, gradients and optimizer take {}",
                          base::format(base::Bytes{session_->state_bytes().total()}));
    }
    return base::infeasible_error(fmt::format("memory: not one worker of {} samples fits {}{}; use a smaller local "
                                              "batch, or a device with more `memory`",
                                              fmt::join(request_.lbs, " or "), limit, needs),
                                  {.field = "lbs"});
  }

  /// A step of a model that does not work says only what went wrong; the block is found by going through them.
  base::Error explained(const base::Error& error, int lbs) {
    session_.reset();
    if (error.kind != base::ErrorKind::kInput) return error;
    const auto session = opened();
    if (!session.ok()) return error;
    return find_failing_block(**session, lbs, clock_).value_or(error);
  }

  // ---- buckets ---------------------------------------------------------------------------------------------------

  Status buckets(Report& report) {
    begin("gradient buckets");
    report.buckets = {session_->bucket_mebibytes()};
    report.sync = plan::to_string(plan::recommend_sync(report.buckets));
    report.sync_reason = plan::explain_sync(report.buckets);
    YOKE_CHECK(folder_->save_buckets(report.buckets));
    finish();
    return {};
  }

  // ---- memory ----------------------------------------------------------------------------------------------------

  Status memory(std::vector<int>& sizes) {
    double later = 0;
    for (const int lbs : sizes) later += least_for_memory(lbs) + least_for_times(lbs);
    for (const int lbs : sizes) {
      if (stops()) return {};
      later -= least_for_memory(lbs);
      YOKE_CHECK(memory_of(lbs, later));
    }
    if (request_.search_up_to > sizes.back()) YOKE_CHECK(search(sizes));
    return {};
  }

  /// Samples that pass to foretell how many workers fit, where the time is not short.
  static double least_for_memory(int lbs) { return kMemorySteps * (1 + kMemoryWorkers) * lbs; }

  /// Samples of the shortest visits to one worker, to the most of them and to the layers.
  double least_for_times(int lbs) {
    const int most = most_vsw(lbs);
    const int workers = (wants(Part::kCompute) ? (most > 1 ? 1 + most : 1) : 0) + (wants(Part::kLayers) ? 1 : 0);
    return kFloorSteps * kVisits * workers * lbs;
  }

  bool fits(int lbs) { return at(lbs).max_vsw.value_or(0) > 0; }

  /// Doubles the last size while it fits, then halves what is left between the last that fits and the first that does
  /// not, down to steps of the first size.
  Status search(std::vector<int>& sizes) {
    const int grain = sizes.front();
    int low = sizes.back();
    int high = 0;  // the smallest that is known not to fit
    if (!fits(low)) return {};
    while (!stops()) {
      int next = 0;
      if (high == 0) {
        next = low > request_.search_up_to / 2 ? request_.search_up_to : low * 2;
      } else {
        next = low + std::max(grain, (high - low) / 2 / grain * grain);
      }
      if (next <= low || (high > 0 && next >= high)) return {};
      ++total_;
      YOKE_CHECK(memory_of(next, least_for_times(next)));
      sizes.push_back(next);
      std::ranges::sort(sizes);
      (fits(next) ? low : high) = next;
      if (low >= request_.search_up_to) return {};
    }
    return {};
  }

  /// `later`: samples of what is to be measured after it.
  Status memory_of(int lbs, double later) {
    auto& known = at(lbs);
    const std::int64_t limit = limit_.value_or(std::numeric_limits<std::int64_t>::max());
    const bool same = known.max_vsw && known.memory && known.total_memory == base::Bytes{limit} &&
                      (!known.memory->capped || *known.max_vsw >= request_.most_vsw);
    if (same && !request_.again) {
      keep();
      return {};
    }
    begin(fmt::format("memory of {} samples", lbs));
    YOKE_TRY(const auto parts, memory_parts(lbs, limit, later));
    MemoryAnswer answer;
    if (parts) {
      YOKE_TRY(answer, tried_workers(*parts, lbs, limit, later));
    }
    known.max_vsw = answer.workers;
    known.total_memory = base::Bytes{limit};
    known.memory = parts;
    if (parts) {
      known.memory->verified = answer.verified;
      known.memory->capped = answer.capped;
    }
    YOKE_CHECK(folder_->save_node());
    finish();
    return {};
  }

  /// The forecast, corrected by trying where that is worth it.
  Result<MemoryAnswer> tried_workers(const profile::MemoryParts& parts, int lbs, std::int64_t limit, double later) {
    const int most = request_.most_vsw;
    const int foretold = foretell_workers(parts, limit, most);
    if (!is_worth(kMemorySteps * most * lbs + later, parts, limit)) {
      observer_.on_note(
          fmt::format("lbs {}: {} workers are foretold to fit with room to spare; the device's budget of {} is too "
                      "short to try them",
                      lbs, most, budget_text()));
      return MemoryAnswer{.workers = most, .verified = false, .capped = true};
    }
    const auto answer = verify_workers(foretold, most, [&](int vsw) -> Result<bool> {
      begin(fmt::format("{} workers of {} samples within {}", vsw, lbs, base::format(base::Bytes{limit})));
      YOKE_TRY(const Trial trial, helpers_.try_steps(subject_, lbs, vsw, limit));
      return trial.fits;
    });
    if (answer.ok() && answer->workers != foretold && foretold > 0) {
      observer_.on_note(fmt::format("lbs {}: {} workers were foretold to fit, {} do", lbs, foretold, answer->workers));
    }
    return answer;
  }

  /// Nothing when not even one worker fits.
  Result<std::optional<profile::MemoryParts>> memory_parts(int lbs, std::int64_t limit, double later) {
    const MemoryLimit limited(limit);
    const auto one = peak_of(lbs, 1);
    if (!one.ok()) {
      if (one.error().kind != base::ErrorKind::kInfeasible) return explained(one.error(), lbs);
      session_.reset();
      return std::optional<profile::MemoryParts>();
    }
    const auto state = session_->state_bytes();
    const std::int64_t building = std::max(building_, one->building);
    const std::int64_t beyond = std::max<std::int64_t>(1, one->step - state.total());
    profile::MemoryParts parts{.weights = state.weights,
                               .gradients = state.gradients,
                               .optimizer = state.optimizer,
                               .buffers = state.buffers,
                               .worker = beyond,
                               .passes = 0,
                               .building = building};
    // What a worker more takes, where more fit: one alone also has what passes need once.
    if (request_.most_vsw >= kMemoryWorkers && is_worth(kMemorySteps * kMemoryWorkers * lbs + later, parts, limit)) {
      const auto more = peak_of(lbs, kMemoryWorkers);
      if (!more.ok() && more.error().kind != base::ErrorKind::kInfeasible) return more.error();
      if (more.ok()) {
        parts.worker = std::clamp<std::int64_t>((more->step - one->step) / (kMemoryWorkers - 1), 1, beyond);
        parts.passes = beyond - parts.worker;
      }
      if (!more.ok()) session_.reset();
    }
    return std::optional(parts);
  }

  /// Whether more about memory is worth steps over so many samples: not where the time is short, and as many workers as
  /// are asked for have room to spare.
  bool is_worth(double samples, const profile::MemoryParts& parts, std::int64_t limit) const {
    return budget_.affords(samples) || foretell_workers(parts, limit / 4 * 3, request_.most_vsw) < request_.most_vsw;
  }

  struct Peak {
    std::int64_t building = 0;
    std::int64_t step = 0;
  };
  Result<Peak> peak_of(int lbs, int vsw) {
    YOKE_TRY(Session * session, opened(true));
    YOKE_CHECK(session->configure(lbs, vsw, 0));
    Peak peak{.building = session->take_peak_bytes()};
    YOKE_CHECK(run_steps(*session, lbs * vsw, kMemorySteps));
    peak.step = session->take_peak_bytes();
    return peak;
  }

  /// Runs steps of so many samples; all but the first show the pace.
  Status run_steps(Session& session, int samples, int steps) {
    for (int i = 0; i < steps; ++i) {
      YOKE_TRY(const StepTimes step, session.step());
      if (i > 0) budget_.saw(samples, step.total);
    }
    return {};
  }

  std::string budget_text() const { return base::format_seconds(base::to_seconds(budget_.whole())); }

  // ---- times -----------------------------------------------------------------------------------------------------

  /// A time that is measured again and again, at moments apart: what disturbs a machine lasts for seconds, and the
  /// steps of one moment then agree with each other and not with those of the next.
  template <typename Measured>
  struct Errand {
    int lbs = 0;
    int vsw = 1;
    std::vector<Measured> visits;
    profile::Confidence confidence;  // of all visits so far

    double samples() const { return lbs * vsw; }
  };
  using Point = Errand<profile::ComputeSample>;
  using LayerPoint = Errand<profile::LayerGraph>;

  static std::string describe(const Point& point) { return fmt::format("{} x {} samples", point.vsw, point.lbs); }
  static std::string describe(const LayerPoint& point) { return fmt::format("layers with {} samples", point.lbs); }

  template <typename Measured>
  static double samples_of(const std::vector<Errand<Measured>>& points) {
    double samples = 0;
    for (const auto& point : points) samples += point.samples();
    return samples;
  }

  /// Times of steps, then of layers: each once, and more often as far as the budget allows.
  Status times(const std::vector<int>& sizes, Report& report) {
    std::vector<Point> points = wants(Part::kCompute) ? unknown_points(sizes) : std::vector<Point>();
    std::vector<LayerPoint> layers;
    if (wants(Part::kLayers)) {
      YOKE_TRY(layers, unknown_layers(sizes, report));
    }
    if ((points.empty() && layers.empty()) || stops()) return {};
    // From the first time that is measured to the last.
    YOKE_TRY(const std::shared_ptr<void> company,
             helpers_.keep_company(subject_, std::min(sizes.front(), kCompanyBatch)));
    YOKE_TRY(Session * session, opened());
    if (company != nullptr) budget_.forget_pace();
    if (!budget_.knows_pace()) YOKE_CHECK(see_pace(*session, sizes.front()));
    keep_to_budget(points, samples_of(layers));
    total_ = done_ + kVisits * static_cast<int>(points.size() + layers.size());
    budget_.plan(kVisits * (samples_of(points) + samples_of(layers)));
    YOKE_CHECK(
        go_round<profile::ComputeSample>(points, samples_of(layers), [&](Point& point) { return visit_point(point); }));
    if (layers.empty() || stops()) return {};
    YOKE_TRY(const auto timer, LayerTimer::open(*session, {.label_smoothing = subject_.job.label_smoothing}));
    return go_round<profile::LayerGraph>(layers, 0, [&](LayerPoint& point) -> Status {
      YOKE_TRY(const auto graph, visit_layers(point, *timer));
      report.layers.insert_or_assign(point.lbs, graph);
      return folder_->save_layers(point.lbs, graph, point.lbs == sizes.front());
    });
  }

  /// The pace of this device as it is now: a step that does not count and one that does, of one worker.
  Status see_pace(Session& session, int lbs) {
    YOKE_CHECK(session.configure(lbs, 1, 0));
    const Status seen = run_steps(session, lbs, kFloorSteps);
    return seen.ok() ? seen : explained(seen.error(), lbs);
  }

  /// Where all cannot be visited three times, half of the workers is left out: what is beside it tells most of it. Says
  /// so, and also where not even one visit to each of the others is within the budget. `later`: of layers.
  void keep_to_budget(std::vector<Point>& points, double later) {
    if (budget_.affords(kFloorSteps * kVisits * (samples_of(points) + later))) return;
    const auto left_out =
        std::erase_if(points, [&](const Point& point) { return point.vsw != 1 && point.vsw != most_vsw(point.lbs); });
    if (left_out > 0) {
      observer_.on_note(
          fmt::format("the device's budget of {} is too short for half of the workers: one and the most are measured",
                      budget_text()));
    }
    const double least = kFloorSteps * (samples_of(points) + later);
    if (budget_.affords(least)) return;
    observer_.on_note(fmt::format(
        "the device's budget of {} is too short: to measure every time once takes about {}, and {} are left",
        budget_text(), base::format_seconds(budget_.seconds_of(least)),
        base::format_seconds(base::to_seconds(budget_.left()))));
  }

  /// Visits all of them three times, one after the other, and then, as often again, those whose visits do not agree.
  /// All but the first visit only where the budget allows it, and as many visits to what comes `later` (in samples).
  template <typename Measured>
  Status go_round(std::vector<Errand<Measured>>& points, double later,
                  const std::function<Status(Errand<Measured>&)>& visit) {
    std::vector<Errand<Measured>*> due;
    for (auto& point : points) due.push_back(&point);
    for (int round = 0; round < kMostVisits; ++round) {
      if (round == kVisits) {
        std::erase_if(due,
                      [](const auto* point) { return !point->confidence.noisy || point->visits.size() < kVisits; });
        for (const auto* point : due) budget_.plan((kMostVisits - kVisits) * point->samples());
        total_ += (kMostVisits - kVisits) * static_cast<int>(due.size());
      }
      for (auto* point : due) {
        if (stops()) return {};
        const double least = kFloorSteps * (point->samples() + std::min(round + 1, kVisits) * later);
        if (round == 0 || budget_.affords(least)) {
          YOKE_CHECK(visit(*point));
          if (point->visits.size() == kVisits) ++measured_;
        } else {
          budget_.drop(point->samples());
        }
        ++done_;
      }
    }
    note_confidence(points);
    return {};
  }

  template <typename Measured>
  void note_confidence(const std::vector<Errand<Measured>>& points) {
    std::vector<std::string> few;
    for (const auto& point : points) {
      if (point.visits.size() < kVisits) {
        ++measured_;
        few.push_back(describe(point));
      } else if (point.confidence.noisy) {
        observer_.on_note(fmt::format(
            "{}: times vary by {:.0f}%, so they are marked as noisy; measure again (--again) on a quiet machine",
            describe(point), 100 * point.confidence.spread));
      }
    }
    if (few.empty()) return;
    observer_.on_note(fmt::format(
        "the device's budget of {} was too short to measure at three moments: {}; those of fewer than three steps are "
        "marked as noisy. The same command measures them again, and --budget gives it more time",
        budget_text(), fmt::join(few, ", ")));
  }

  std::vector<Point> unknown_points(const std::vector<int>& sizes) {
    std::vector<Point> points;
    for (const int lbs : sizes) {
      for (const int vsw : sampled_vsw(most_vsw(lbs))) {
        const auto* known = sample_at(lbs, vsw);
        if (known != nullptr && is_complete(known->confidence) && !request_.again) {
          keep();
        } else {
          points.push_back({.lbs = lbs, .vsw = vsw, .visits = {}, .confidence = {}});
        }
      }
    }
    return points;
  }

  /// What an interruption or a short budget left with fewer visits is not: it would keep the times of a moment for
  /// good.
  static bool is_complete(const std::optional<profile::Confidence>& confidence) {
    return !confidence || confidence->visits.value_or(kVisits) >= kVisits;
  }

  /// Null when it was not measured.
  profile::ComputeSample* sample_at(int lbs, int vsw) {
    auto& samples = at(lbs).compute;
    const auto found = std::ranges::find(samples, vsw, &profile::ComputeSample::vsw);
    return found == samples.end() ? nullptr : &*found;
  }

  /// Publishes what is known after this visit.
  Status visit_point(Point& point) {
    const bool first = point.visits.empty();
    begin(fmt::format("time of {}{}", describe(point), first ? "" : ", again"));
    auto measured = compute_of(point, budget_.take_share(point.samples()));
    if (!measured.ok()) return explained(measured.error(), point.lbs);
    point.visits.push_back(*std::move(measured));
    std::vector<Visit> visits;
    for (const auto& visit : point.visits) visits.push_back({.ms = visit.total_ms, .confidence = *visit.confidence});
    const Typical counts = typical_visit(visits, kNoisy);
    profile::ComputeSample typical = point.visits[counts.visit];
    typical.confidence = point.confidence = counts.confidence;
    if (auto* known = sample_at(point.lbs, point.vsw)) {
      *known = typical;
    } else {
      auto& samples = at(point.lbs).compute;
      samples.insert(std::ranges::lower_bound(samples, point.vsw, {}, &profile::ComputeSample::vsw), typical);
    }
    return folder_->save_node();
  }

  struct Times {
    Series total, data, forward, backward;
    double spent = 0;
  };

  /// Steps of so many samples, for so many seconds; at least one, after one or more that do not count.
  Result<Times> steps(Session& session, double samples, double seconds) {
    int count = 0;
    double warm = 0;
    do {
      YOKE_TRY(const StepTimes step, session.step());
      warm += step.total;
      ++count;
    } while (warm < std::min(kWarmUpSeconds, seconds / 3));
    const Patience patience{.seconds = seconds - warm, .least = 1, .least_seconds = kLeastSeconds};
    Times times;
    do {
      YOKE_TRY(const StepTimes step, session.step());
      times.total.add(step.total);
      times.data.add(step.data);
      times.forward.add(step.forward);
      times.backward.add(step.backward);
      times.spent += step.total;
    } while (!patience.enough(times.total, times.spent));
    budget_.saw(samples * (count + times.total.count()), warm + times.spent);
    return times;
  }

  /// One visit.
  Result<profile::ComputeSample> compute_of(const Point& point, double seconds) {
    YOKE_TRY(Session * session, opened());
    YOKE_CHECK(session->configure(point.lbs, point.vsw, 0));
    // A further round is measured, not deduced, where there is time for it beside two steps that count.
    constexpr int kRounds = kExtraRounds + 1;
    const double samples = point.samples();
    const bool rounds = seconds >= budget_.seconds_of(samples * (1 + 2 + kFloorSteps * kRounds));
    YOKE_TRY(const Times single, steps(*session, samples, rounds ? seconds / 3 : seconds));
    const double total = single.total.median();
    const double update = session->update_seconds();
    const double passes = single.forward.median() + single.backward.median();
    // However a measurement was disturbed: a round takes at least its passes, and at most the step.
    const double shortest = std::min(passes, total);
    double round = 0;
    if (rounds) {
      YOKE_CHECK(session->configure(point.lbs, point.vsw, kExtraRounds));
      YOKE_TRY(const Times more, steps(*session, samples * kRounds, seconds - single.spent));
      round = std::clamp((more.total.median() - total) / kExtraRounds, shortest, total);
    } else if (point.visits.empty()) {
      round = std::max(shortest, total - update);
    } else {
      round = total * *point.visits.back().round_ms / point.visits.back().total_ms;
    }
    // A round is more than its passes: what is around them is shared out, so that data, forward and backward are what
    // a round of accumulation takes.
    const double data = std::min(single.data.median(), round / 2);
    const double scale = passes > 0 ? (round - data) / passes * 1000 : 0;
    return profile::ComputeSample{.vsw = point.vsw,
                                  .total_ms = total * 1000,
                                  .data_ms = data * 1000,
                                  .forward_ms = single.forward.median() * scale,
                                  .backward_ms = single.backward.median() * scale,
                                  .update_ms = update * 1000,
                                  .copy_ms = 0,     // workers share their weights
                                  .bn_sync_ms = 0,  // buffers are those of worker 0
                                  .round_ms = round * 1000,
                                  .confidence = single.total.confidence(kNoisy)};
  }

  // ---- layers ----------------------------------------------------------------------------------------------------

  Result<std::vector<LayerPoint>> unknown_layers(const std::vector<int>& sizes, Report& report) {
    std::vector<LayerPoint> points;
    for (const int lbs : sizes) {
      YOKE_TRY(const auto known, folder_->layers(lbs));
      if (known && is_complete(known->confidence()) && !request_.again) {
        report.layers.emplace(lbs, *known);
        keep();
      } else {
        points.push_back({.lbs = lbs, .visits = {}, .confidence = {}});
      }
    }
    return points;
  }

  /// What is known after one more visit.
  Result<profile::LayerGraph> visit_layers(LayerPoint& point, LayerTimer& timer) {
    const bool first = point.visits.empty();
    begin(fmt::format("{}{}", describe(point), first ? "" : ", again"));
    const Patience patience{
        .seconds = budget_.take_share(point.samples()), .least = 1, .least_seconds = kLeastSeconds / kVisits};
    const auto began = clock_.now();
    YOKE_TRY(auto graph, timer.measure(point.lbs, patience, kNoisy, clock_));
    constexpr int kWarmUpPasses = 1;
    budget_.saw(point.samples() * (kWarmUpPasses + graph.confidence()->count), base::to_seconds(clock_.now() - began));
    point.visits.push_back(std::move(graph));
    std::vector<Visit> visits;
    for (const auto& each : point.visits) visits.push_back({.ms = pass_ms(each), .confidence = *each.confidence()});
    const Typical typical = typical_visit(visits, kNoisy);
    point.confidence = typical.confidence;
    return point.visits[typical.visit].with_confidence(typical.confidence);
  }

  const Request& request_;
  const Subject& subject_;
  Helpers& helpers_;
  Observer& observer_;
  const base::Clock& clock_;
  const std::optional<std::int64_t> limit_;
  const base::Instant begin_;
  Budget budget_;
  std::optional<Folder> folder_;
  std::unique_ptr<Session> session_;
  bool meets_ = false;
  std::int64_t building_ = 0;
  int total_ = 0;
  int done_ = 0;
  int measured_ = 0;
  int kept_ = 0;
  bool stopped_ = false;
};

}  // namespace

Result<Report> measure(const Request& request, Helpers& helpers, Observer& observer, const base::Clock& clock) {
  base::require(request.subject.device.memory_bytes.has_value(), "profiling needs a limit of memory");
  return Profiling(request, helpers, observer, clock).run();
}

Result<Trial> try_steps(const Subject& subject, int lbs, int vsw, std::int64_t memory_bytes, const base::Clock& clock) {
  tensor::use_metered_cpu_memory();
  tensor::limit_cpu_memory(memory_bytes);
  const auto run = [&]() -> Result<Trial> {
    YOKE_TRY(const auto session, Session::open(subject, true, clock));
    YOKE_CHECK(session->configure(lbs, vsw, 0));
    for (int i = 0; i < kMemorySteps; ++i) {
      const auto step = session->step();
      if (!step.ok()) return step.error();
    }
    return Trial{.fits = true, .peak_bytes = session->take_peak_bytes()};
  };
  auto trial = run();
  if (!trial.ok() && trial.error().kind == base::ErrorKind::kInfeasible) return Trial{};
  return trial;
}

Status keep_busy(const Subject& subject, int lbs, const base::Clock& clock) {
  YOKE_TRY(const auto session, Session::open(subject, false, clock));
  YOKE_CHECK(session->configure(lbs, 1, 0));
  for (;;) {
    const auto step = session->step();
    if (!step.ok()) return step.error();
  }
}

}  // namespace yoke::profiler
