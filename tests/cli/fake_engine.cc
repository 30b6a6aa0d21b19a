// An engine without tensors, for tests of everything around it: it keeps to the contract of engine/rank.h (steps
// together, checkpoints, stop requests, plans, events, spans), and fails where the test says.
//
//   YOKE_FAKE=rank:step:act   act: kill, segv, peer, input, internal, hang; it prints a line first
//   YOKE_FAKE_STEP_MS=n       how long a step takes
#include <fmt/format.h>
#include <signal.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/cli/command.h"
#include "yoke/cli/profile_comm.h"
#include "yoke/cli/profile_sync.h"
#include "yoke/engine/rank.h"

namespace yoke::engine {
namespace {

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// What the test wants at this rank and step.
std::string act_at(int rank, std::int64_t step) {
  const std::string text = setting("YOKE_FAKE");
  const auto parts = base::split(text, ":");
  if (parts.size() != 3 || parts[0] != std::to_string(rank) || parts[1] != std::to_string(step)) return "";
  return std::string(parts[2]);
}

base::Status act(const std::string& what) {
  std::cerr << "about to " << what << std::endl;
  if (what == "kill") ::raise(SIGKILL);
  if (what == "segv") {
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer would report it and exit
    ::raise(SIGSEGV);
  }
  if (what == "hang") std::this_thread::sleep_for(std::chrono::minutes(10));
  if (what == "peer") return base::peer_error("the disk is full");
  if (what == "input") return base::input_error("found no such model", {.file = "job.yaml", .field = "model.name"});
  return base::Error{base::ErrorKind::kInternal, "a bug"};
}

/// The whole state: what was done, and a "weight" that every sample has changed.
struct State {
  std::int64_t step = 0;
  std::int64_t samples = 0;
  std::int64_t weight = 0;
};

std::string file_of(const RankOptions& options) {
  return base::join_path(options.checkpoints, "state");
}

base::Status save(const RankOptions& options, const State& state) {
  return base::publish_file(file_of(options), fmt::format("{} {} {}", state.step, state.samples, state.weight));
}

base::Result<State> load(const RankOptions& options) {
  State state;
  if (!options.resume || !base::exists(file_of(options))) return state;
  YOKE_TRY(const std::string text, base::read_file(file_of(options)));
  const auto parts = base::split(text, " ");
  std::int64_t* fields[] = {&state.step, &state.samples, &state.weight};
  for (std::size_t i = 0; i < 3; ++i) {
    std::from_chars(parts.at(i).data(), parts.at(i).data() + parts.at(i).size(), *fields[i]);
  }
  return state;
}

plan::Plan default_plan(const RankOptions& options) {
  plan::Plan plan{.model = options.job.model.name, .gbs = options.job.batch.global, .cost_model = "none"};
  plan.lbs = static_cast<int>(plan.gbs / static_cast<std::int64_t>(options.devices.size()));
  for (const auto& device : options.devices) plan.data_lanes.push_back({.device = device.id, .seconds = {}});
  return plan;
}

}  // namespace

int gpu_count() {
  return 0;
}

void select_device(const DeviceSpec& /*device*/) {}

base::Result<RankResult> train_rank(const RankOptions& options, std::unique_ptr<comm::Group> group, Observer& observer,
                                    const base::Clock& clock) {
  const int rank = group->rank();
  const bool tells = rank == 0;
  YOKE_TRY(State state, load(options));
  const plan::Plan plan = options.plan ? *options.plan : default_plan(options);
  if (tells) observer.on_plan(plan);
  if (tells && state.step > 0) observer.on_event({.kind = "resume", .detail = "goes on", .step = state.step});
  if (!tells) observer.on_event({.kind = "hello", .detail = "of a rank that is not the first"});
  const std::int64_t all = options.job.data.limit.value_or(40) * options.job.epochs;
  const auto step_time = std::chrono::milliseconds(std::atoi(setting("YOKE_FAKE_STEP_MS").c_str()));

  bool stop = false;
  while (state.samples < all && !stop) {
    const auto began = clock.now();
    const std::string wanted = act_at(rank, state.step + 1);
    if (!wanted.empty()) YOKE_CHECK(act(wanted));
    std::this_thread::sleep_for(step_time);
    std::vector<float> requests{observer.stop_requested() ? 1.0F : 0.0F};
    YOKE_CHECK(group->run(comm::all_reduce(std::span(requests)), base::Deadline::in(options.patience, clock)));
    stop = requests[0] > 0;
    const std::int64_t used = std::min(plan.gbs, all - state.samples);
    for (std::int64_t i = 0; i < used; ++i) state.weight = (state.weight * 31 + state.samples + i) % 1'000'003;
    state.samples += used;
    ++state.step;
    const auto took = clock.now() - began;
    if (options.trace != nullptr) {
      options.trace->span({rank, 0}, "step", "compute", began - options.trace_origin, took);
    }
    if (!tells) continue;
    observer.on_step({.step = state.step,
                      .epoch = (state.samples - 1) / options.job.data.limit.value_or(40),
                      .gbs = plan.gbs,
                      .lbs = plan.lbs,
                      .workers = plan.workers(),
                      .loss = 1.0 / static_cast<double>(state.step),
                      .lr = options.job.optimizer.lr,
                      .step_seconds = base::to_seconds(took),
                      .samples_per_second = static_cast<double>(used) / base::to_seconds(took),
                      .samples = used,
                      .total_samples = state.samples,
                      .total_steps = (all + plan.gbs - 1) / plan.gbs});
    if (stop || state.step % options.job.checkpoint.every_steps == 0) {
      YOKE_CHECK(save(options, state));
      observer.on_event({.kind = "checkpoint", .detail = "saved", .step = state.step});
    }
  }
  if (tells && !stop) {
    YOKE_CHECK(save(options, state));
    observer.on_event(
        {.kind = "evaluation", .detail = "on the test part", .step = state.step, .values = {{"test_accuracy", 0.875}}});
  }
  YOKE_CHECK(group->close());
  RankResult result{.interrupted = stop, .steps = state.step, .samples = state.samples};
  result.epochs = static_cast<double>(options.job.epochs);
  result.train_loss = 1.0 / static_cast<double>(std::max<std::int64_t>(1, state.step));
  result.test_accuracy = 0.875;
  result.predicted_step_seconds = plan.step_seconds;
  result.measured_step_seconds = 0.001;
  result.weights_sha256 = fmt::format("{:064x}", state.weight);
  return result;
}

}  // namespace yoke::engine

namespace yoke::cli {

void add_commands(CLI::App& app, Action& chosen) {
  add_run(app, chosen);
  add_train(app, chosen);
  CLI::App& profile = add_group(app, "profile", "what does without an engine");
  add_profile_comm(profile, chosen);
  add_profile_sync(profile, chosen);
}

}  // namespace yoke::cli
