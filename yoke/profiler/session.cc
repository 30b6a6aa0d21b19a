#include "yoke/profiler/session.h"

#include <fmt/format.h>

#include "yoke/comm/join.h"
#include "yoke/comm/store/store.h"
#include "yoke/engine/job_parts.h"

namespace yoke::profiler {
namespace {

constexpr base::Duration kJoin = std::chrono::seconds(30);
constexpr std::int64_t kSyntheticSamples = std::int64_t{1} << 24;  // they take no memory

/// Trains as the job does but gets nowhere: the same work in every step, for as long as it takes.
plan::Job standing_still(plan::Job job) {
  job.optimizer.lr = 1e-9;
  job.epochs = 1'000'000;
  job.lr = {};
  if (job.data.name == "synthetic") job.data.limit = kSyntheticSamples;
  return job;
}

}  // namespace

base::Result<std::unique_ptr<Session>> Session::open(const Subject& subject, bool meet, const base::Clock& clock) {
  return guarded([&]() -> base::Result<std::unique_ptr<Session>> {
    std::unique_ptr<Session> session(new Session);
    session->job_ = standing_still(subject.job);
    const plan::Job& job = session->job_;
    session->id_ = subject.device.id;
    YOKE_TRY(session->device_, engine::make_device(job, subject.device));
    session->device_->reset_peak_memory();
    YOKE_TRY(session->data_, engine::open_data(job.data, data::Split::kTrain));
    YOKE_TRY(session->architecture_, engine::make_architecture(job.model, session->data_->info()));
    engine::TrainerOptions options{.job = job,
                                   .architecture = session->architecture_,
                                   .train = session->data_.get(),
                                   .device = session->device_.get(),
                                   .speed = subject.device.speed,
                                   .meet = meet};
    if (job.precision == plan::Precision::kFp16) options.loss_scale.emplace();
    YOKE_TRY(session->trainer_, engine::Trainer::make(std::move(options), clock));
    session->update_seconds_ = session->trainer_->measure_update();
    const auto store = comm::make_memory_store();
    YOKE_TRY(session->group_, comm::join({.name = "profile", .rank = 0, .size = 1, .backend = "local"}, *store,
                                         base::Deadline::in(kJoin, clock), clock));
    return session;
  });
}

base::Status Session::configure(int lbs, int vsw, int ga) {
  const std::int64_t gbs = std::int64_t{lbs} * vsw * (ga + 1);
  if (gbs > data_->info().size) {
    return base::input_error(fmt::format("the data set `{}` has {} samples, expected at least the {} of a step of {} "
                                         "workers; use smaller local batch sizes, or `synthetic` data",
                                         data_->info().name, data_->info().size, gbs, vsw * (ga + 1)),
                             {.field = "lbs"});
  }
  plan::Plan plan{.model = architecture_.name, .gbs = gbs, .lbs = lbs, .cost_model = "none"};
  plan.data_lanes.push_back({.device = id_, .vsw = vsw, .ga = ga, .seconds = {}});
  if (!group_) group_ = trainer_->release_group();
  return guarded([&]() -> base::Status { return trainer_->configure(plan, std::move(group_), {id_}); });
}

base::Result<StepTimes> Session::step() {
  for (;;) {
    YOKE_TRY(const engine::StepReport report, trainer_->step());
    if (report.samples < report.gbs) continue;
    const engine::LaneReport& lane = trainer_->last_lane();
    return StepTimes{.total = report.step_seconds,
                     .data = lane.data_seconds,
                     .forward = lane.forward_seconds,
                     .backward = lane.backward_seconds};
  }
}

std::int64_t Session::take_peak_bytes() {
  const std::int64_t peak = device_->memory().peak_bytes;
  device_->reset_peak_memory();
  return peak;
}

}  // namespace yoke::profiler
