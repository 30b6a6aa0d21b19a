#include "yoke/cli/run/recorder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <filesystem>

#include "yoke/base/json.h"
#include "yoke/cli/launch/machine.h"
#include "yoke/cli/launch/reports.h"

namespace yoke::cli {
namespace {

using base::Status;

/// A million steps take 200 MB.
constexpr std::int64_t kLargestMetrics = std::int64_t{4} << 30U;

}  // namespace

double time_of_day() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Status EventLog::add(const engine::Event& event) {
  if (!file_) {
    YOKE_TRY(file_, base::AppendFile::open(base::join_path(folder_, "events.jsonl")));
  }
  base::Json line = to_json(event);
  line["time"] = time_of_day();
  if (rank_) line["rank"] = *rank_;
  return file_->append(line.dump() + "\n");
}

std::string metrics_before(std::string_view metrics, std::int64_t first) {
  constexpr std::string_view kBegin = "{\"step\":";
  std::string kept;
  while (!metrics.empty()) {
    const auto end = metrics.find('\n');
    if (end == std::string_view::npos) break;  // torn
    const auto line = metrics.substr(0, end);
    metrics.remove_prefix(end + 1);
    std::int64_t step = 0;
    if (!line.starts_with(kBegin) || !line.ends_with('}')) continue;
    const auto number = line.substr(kBegin.size());
    if (std::from_chars(number.data(), number.data() + number.size(), step).ec != std::errc()) continue;
    if (step < first) kept.append(line).push_back('\n');
  }
  return kept;
}

Recorder::Recorder(std::string folder, bool resumes)
    : folder_(std::move(folder)), resumes_(resumes), events_(folder_, 0) {}

Status Recorder::plan(const plan::Plan& plan) {
  return base::publish_file(base::join_path(folder_, "plan.json"), plan::to_json(plan));
}

Status Recorder::begin_steps(std::int64_t first) {
  const std::string path = base::join_path(folder_, "metrics.jsonl");
  if (resumes_) {
    if (base::exists(path)) {
      YOKE_TRY(const std::string old, base::read_file(path, kLargestMetrics));
      YOKE_CHECK(base::publish_file(path, metrics_before(old, first)));
    }
    std::error_code absent;  // a run that goes on is not finished
    std::filesystem::remove(base::join_path(folder_, "result.json"), absent);
  }
  YOKE_TRY(metrics_, base::AppendFile::open(path));
  return {};
}

Status Recorder::step(const engine::StepReport& step) {
  if (!metrics_) YOKE_CHECK(begin_steps(step.step));
  samples_ += step.samples;
  step_seconds_ += step.step_seconds;
  YOKE_CHECK(metrics_->append(to_json(step).dump() + "\n"));
  return board(step.step, {{"loss", step.loss},
                           {"lr", step.lr},
                           {"samples_per_second", step.samples_per_second},
                           {"gbs", static_cast<double>(step.gbs)}});
}

Status Recorder::event(const engine::Event& event) {
  for (const auto& [name, value] : event.values) {
    if (name == "equal_split_step_seconds") equal_split_step_seconds_ = value;
  }
  YOKE_CHECK(events_.add(event));
  if (event.kind != "evaluation" || event.values.empty()) return {};
  std::vector<base::Scalar> scalars;
  for (const auto& [name, value] : event.values) scalars.push_back({name, value});
  return board(event.step, scalars);
}

Status Recorder::board(std::int64_t step, const std::vector<base::Scalar>& scalars) {
  const double now = time_of_day();
  if (!board_) {
    YOKE_TRY(auto writer, base::TensorBoardWriter::create(folder_, fmt::format("{}.{}", host_name(), ::getpid()), now));
    board_.emplace(std::move(writer));
    if (resumes_) YOKE_CHECK(board_->restart(step, now));
  }
  return board_->add(step, scalars, now);
}

base::Result<RunResult> Recorder::finish(const engine::RankResult& rank, double wall_seconds,
                                         std::optional<double> equal_split_step_seconds, profile::Source plan_source) {
  RunResult result{.rank = rank, .wall_seconds = wall_seconds};
  result.plan_source = plan_source;
  result.equal_split_step_seconds = equal_split_step_seconds_ ? equal_split_step_seconds_ : equal_split_step_seconds;
  if (step_seconds_ > 0) result.samples_per_second = static_cast<double>(samples_) / step_seconds_;
  YOKE_CHECK(save_result(base::join_path(folder_, "result.json"), result));
  return result;
}

}  // namespace yoke::cli
