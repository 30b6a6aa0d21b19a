#include "yoke/cli/profile/children.h"

#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <system_error>
#include <thread>

#include "yoke/base/text.h"
#include "yoke/cli/launch/processes.h"
#include "yoke/cli/run/devices.h"
#include "yoke/plan/job.h"

namespace yoke::cli {
namespace {

namespace fs = std::filesystem;
using base::Result;
using base::Status;

/// A file for what a child prints, gone at the end.
class TemporaryLog {
 public:
  TemporaryLog() {
    std::string pattern = (fs::temp_directory_path() / "yoke-profile-XXXXXX").string();
    const int file = ::mkstemp(pattern.data());
    if (file >= 0) ::close(file);
    path_ = pattern;
  }
  ~TemporaryLog() {
    std::error_code gone;  // then there is nothing to remove
    fs::remove(path_, gone);
  }
  TemporaryLog(const TemporaryLog&) = delete;
  TemporaryLog& operator=(const TemporaryLog&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Processes that train until this is destroyed.
class Company {
 public:
  Company(std::vector<std::vector<std::string>> commands, const base::Clock& clock) {
    std::vector<RankCommand> ranks;
    for (auto& argv : commands) ranks.push_back({.argv = std::move(argv), .environment = {}, .log = log_.path()});
    thread_ = std::jthread([this, ranks = std::move(ranks), &clock] {
      const LaunchHooks hooks{.report = nullptr, .stop_requests = [this] { return leave_.load() ? 1 : 0; }};
      // Whether they could be started shows in the times only: a lone device is measured then.
      static_cast<void>(run_ranks(ranks, LaunchTimes{}, hooks, clock));
    });
  }
  ~Company() { leave_ = true; }
  Company(const Company&) = delete;
  Company& operator=(const Company&) = delete;

 private:
  TemporaryLog log_;
  std::atomic<bool> leave_{false};
  std::jthread thread_;  // last: it uses everything above
};

struct ChildOptions {
  std::string job;     // YAML
  std::string device;  // JSON
  int lbs = 1;
  int vsw = 1;
  std::int64_t memory = 0;

  Result<profiler::Subject> subject() const {
    YOKE_TRY(plan::Job parsed, plan::parse_job(job, "--job-text"));
    YOKE_TRY(const base::Document document, base::parse_json(device, "--device"));
    base::Reader reader(document);
    profiler::Subject subject{.job = std::move(parsed), .device = read_device(reader.root())};
    if (!reader.ok()) return reader.error();
    return subject;
  }
};

void declare_child(Arguments& command, ChildOptions& options) {
  command.required("--job-text", options.job, "the job, as YAML");
  command.required("--device", options.device, "the device, as JSON");
  command.required("--lbs", options.lbs, "samples of a worker");
  command.option("--vsw", options.vsw, "workers at once");
  command.option("--memory", options.memory, "bytes that tensors may take");
}

Status run_trial(const ChildOptions& options, Context& context) {
  YOKE_TRY(const auto subject, options.subject());
  YOKE_TRY(const profiler::Trial trial,
           profiler::try_steps(subject, options.lbs, options.vsw, options.memory, context.clock));
  if (!trial.fits) return base::infeasible_error("memory: the step was refused");
  print_json(context, {{"peak_bytes", trial.peak_bytes}});
  return {};
}

Status run_company(const ChildOptions& options, Context& context) {
  YOKE_TRY(const auto subject, options.subject());
  return profiler::keep_busy(subject, options.lbs, context.clock);
}

constexpr const char* kTrial = "try-steps";
constexpr const char* kCompany = "keep-busy";

}  // namespace

std::vector<std::string> ProfilingChildren::command(const profiler::Subject& subject, const engine::DeviceSpec& device,
                                                    int lbs) const {
  return {"--job-text", plan::to_yaml(subject.job), "--device", to_json(device).dump(), "--lbs", std::to_string(lbs)};
}

Result<profiler::Trial> ProfilingChildren::try_steps(const profiler::Subject& subject, int lbs, int vsw,
                                                     std::int64_t memory_bytes) {
  if (context_.program.empty()) {
    return base::peer_error("cannot find this program's own file (/proc/self/exe) to try the steps with");
  }
  std::vector<std::string> argv{context_.program, "profile", kTrial};
  for (auto& word : command(subject, subject.device, lbs)) argv.push_back(std::move(word));
  argv.insert(argv.end(), {"--vsw", std::to_string(vsw), "--memory", std::to_string(memory_bytes)});
  const TemporaryLog log;
  const std::vector<RankCommand> commands{{.argv = std::move(argv), .environment = {}, .log = log.path()}};
  YOKE_TRY(const LaunchOutcome outcome, run_ranks(commands, LaunchTimes{}, {}, context_.clock));
  const RankEnd& end = outcome.ends.front();
  if (end.ok()) return profiler::Trial{.fits = true};
  // Where the machine itself has less than the limit, the kernel refuses in its own way.
  const bool refused = end.exit_code == base::exit_code(base::ErrorKind::kInfeasible) || end.signal == SIGKILL;
  if (refused) return profiler::Trial{};
  const std::string last = end.last_lines.empty() ? name_end(end) : end.last_lines.back();
  const std::string message = fmt::format("{} workers of {} samples: {}", vsw, lbs, last);
  return end.exit_code == base::exit_code(base::ErrorKind::kInput) ? base::input_error(message)
                                                                   : base::peer_error(message);
}

Result<std::shared_ptr<void>> ProfilingChildren::keep_company(const profiler::Subject& subject, int lbs) {
  if (neighbours_.empty()) return std::shared_ptr<void>();
  if (context_.program.empty()) {
    return base::peer_error("cannot find this program's own file (/proc/self/exe) to keep the other devices busy with");
  }
  std::vector<std::vector<std::string>> commands;
  for (const auto& device : neighbours_) {
    std::vector<std::string> argv{context_.program, "profile", kCompany};
    for (auto& word : command(subject, device, lbs)) argv.push_back(std::move(word));
    commands.push_back(std::move(argv));
  }
  return std::shared_ptr<void>(std::make_shared<Company>(std::move(commands), context_.clock));
}

void add_profile_children(CLI::App& group, Action& chosen) {
  add_command<ChildOptions>(group, chosen, kTrial, "", declare_child, run_trial);
  add_command<ChildOptions>(group, chosen, kCompany, "", declare_child, run_company);
  hide_command(group, kTrial);
  hide_command(group, kCompany);
}

}  // namespace yoke::cli
