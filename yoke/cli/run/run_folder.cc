#include "yoke/cli/run/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cli/launch/machine.h"

namespace yoke::cli {
namespace {

using base::Result;
using base::Status;
using comm::Descriptor;

constexpr const char* kRuns = "runs";
constexpr const char* kLock = ".lock";

enum class State {
  kEmpty,     // nothing of a run and nothing else
  kForeign,   // something else
  kPrepared,  // a run that has never made a step
  kBegun,
  kFinished,
};

base::Error folder_error(const std::string& path, std::string message) {
  return base::input_error(std::move(message), {.file = path});
}

Result<State> look_into(const std::string& path) {
  YOKE_TRY(const auto names, base::list_folder(path));
  const auto has = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  const auto in = [&](const char* name) { return base::join_path(path, name); };
  if (names.empty() || (names.size() == 1 && has(kLock))) return State::kEmpty;
  // A folder of somebody's jobs may hold a job.yaml, but never our lock.
  if (!has(kLock)) return State::kForeign;
  if (has("result.json")) return State::kFinished;
  bool begun = false;
  if (has("metrics.jsonl")) {
    std::error_code unknown;
    begun = std::filesystem::file_size(in("metrics.jsonl"), unknown) > 0 || unknown;
  }
  if (has("checkpoints")) {
    YOKE_TRY(const auto checkpoints, base::list_folder(in("checkpoints")));
    begun = begun || !checkpoints.empty();
  }
  return begun ? State::kBegun : State::kPrepared;
}

Status refuse_state(State state, bool resume, const std::string& path) {
  if (state == State::kForeign) {
    return folder_error(path, "found a folder with other things in it, expected an empty one, a new name or a run");
  }
  if (resume && state == State::kEmpty) {
    return folder_error(path, "found no run to go on with; leave --resume out to begin one here");
  }
  if (!resume && (state == State::kBegun || state == State::kFinished)) {
    return folder_error(path,
                        fmt::format("found a run that {}; --resume goes on with it, another --run-dir begins anew",
                                    state == State::kFinished ? "is finished" : "has begun"));
  }
  return {};
}

Result<Descriptor> lock_folder(const std::string& path) {
  const std::string file = base::join_path(path, kLock);
  Descriptor lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock.valid()) {
    return folder_error(
        path, fmt::format("cannot write to the run folder: {}; choose another with --run-dir", std::strerror(errno)));
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return folder_error(file, fmt::format("cannot lock it: {}", std::strerror(errno)));
    const auto owner = base::read_file(file, 4096);
    const std::string who = owner.ok() ? std::string(base::trim(*owner)) : "";
    return folder_error(path, fmt::format("found another run at work in it ({}); wait for its end, or choose another "
                                          "folder with --run-dir",
                                          who.empty() ? "of an unknown process" : who));
  }
  const std::string owner = fmt::format("pid {} on {}\n", ::getpid(), host_name());
  if (::ftruncate(lock.get(), 0) != 0 || ::pwrite(lock.get(), owner.data(), owner.size(), 0) < 0) {
    return base::peer_error(fmt::format("cannot write: {}", std::strerror(errno)), {.file = file});
  }
  return lock;
}

struct RunName {
  std::string date;
  std::int64_t number = 0;
  auto operator<=>(const RunName&) const = default;
};

/// `<job>-2024-05-31-2`
std::optional<RunName> parse_run_name(std::string_view name, const std::string& job) {
  constexpr std::size_t kDate = 10;
  if (!name.starts_with(job + "-")) return std::nullopt;
  name.remove_prefix(job.size() + 1);
  if (name.size() < kDate + 2 || name[kDate] != '-') return std::nullopt;
  const auto number = base::parse_integer(std::string(name.substr(kDate + 1)));
  if (!number.ok()) return std::nullopt;
  return RunName{std::string(name.substr(0, kDate)), *number};
}

Result<std::string> newest_run(const std::string& job) {
  std::optional<RunName> newest;
  if (base::is_folder(kRuns)) {
    YOKE_TRY(const auto names, base::list_folder(kRuns));
    for (const auto& name : names) newest = std::max(newest, parse_run_name(name, job));
  }
  if (!newest) {
    return folder_error(kRuns, fmt::format("found no run of `{}` to go on with; name its folder with --run-dir", job));
  }
  return base::join_path(kRuns, fmt::format("{}-{}-{}", job, newest->date, newest->number));
}

/// Makes it: whoever comes at the same moment gets the next number.
Result<std::string> next_run(const std::string& job, const std::string& date) {
  YOKE_CHECK(base::make_folder(kRuns));
  constexpr int kMost = 100'000;
  for (int number = 1; number < kMost; ++number) {
    const std::string path = base::join_path(kRuns, fmt::format("{}-{}-{}", job, date, number));
    if (::mkdir(path.c_str(), 0755) == 0) return path;
    if (errno != EEXIST) {
      return folder_error(
          path, fmt::format("cannot make the run folder: {}; name another with --run-dir", std::strerror(errno)));
    }
  }
  return folder_error(kRuns, "found no free number for a run of today; name a folder with --run-dir");
}

/// What a run that never made a step has left; the lock stays.
Status remove_leftovers(const std::string& path) {
  YOKE_TRY(const auto names, base::list_folder(path));
  for (const auto& name : names) {
    const bool ours = name == "job.yaml" || name == "cluster.yaml" || name == "plan.json" || name == "metrics.jsonl" ||
                      name == "events.jsonl" || name == "logs" || name == "trace" || name == "trace.json" ||
                      name == "checkpoints" || name.starts_with("events.out.tfevents.");
    if (!ours) continue;
    std::error_code failure;
    std::filesystem::remove_all(base::join_path(path, name), failure);
    if (failure)
      return base::peer_error("cannot remove it: " + failure.message(), {.file = base::join_path(path, name)});
  }
  return {};
}

/// Every scalar and list of a document by its key, in order.
void flatten(const base::Value& value, const std::string& path, std::vector<std::pair<std::string, std::string>>& out) {
  if (value.kind == base::Value::Kind::kMap) {
    for (const auto& entry : value.entries)
      flatten(entry.value, path.empty() ? entry.key : path + "." + entry.key, out);
    return;
  }
  if (value.kind != base::Value::Kind::kList) {
    out.emplace_back(path, value.text);
    return;
  }
  std::vector<std::pair<std::string, std::string>> items;
  for (const auto& item : value.items) flatten(item, "", items);
  std::vector<std::string> texts;
  for (const auto& item : items) texts.push_back(item.second);
  out.emplace_back(path, fmt::format("[{}]", fmt::join(texts, ", ")));
}

std::vector<std::pair<std::string, std::string>> keys_of(const plan::Job& job) {
  const auto document = base::parse_yaml(plan::to_yaml(job), "job.yaml");
  base::require(document.ok(), "a job that was written cannot be read back");
  std::vector<std::pair<std::string, std::string>> keys;
  flatten(document->root, "", keys);
  return keys;
}

/// What decides which samples come in which order, and what the weights belong to.
bool binds_the_run(const std::string& key) {
  return key == "seed" || key.starts_with("model.") || (key.starts_with("data.") && key != "data.threads");
}

}  // namespace

std::vector<JobChange> job_changes(const plan::Job& before, const plan::Job& after) {
  const auto old_keys = keys_of(before);
  const auto new_keys = keys_of(after);
  const auto find = [](const auto& keys, const std::string& key) {
    return std::ranges::find(keys, key, &std::pair<std::string, std::string>::first);
  };
  std::vector<JobChange> changes;
  for (const auto& [key, value] : new_keys) {
    const auto old = find(old_keys, key);
    const std::string was = old == old_keys.end() ? "absent" : old->second;
    if (was != value) changes.push_back({key, was, value});
  }
  for (const auto& [key, value] : old_keys) {
    if (find(new_keys, key) == new_keys.end()) changes.push_back({key, value, "absent"});
  }
  return changes;
}

Result<RunFolder> RunFolder::open(const RunFolderOptions& options) {
  std::string path = options.path;
  if (path.empty() && options.resume) {
    YOKE_TRY(path, newest_run(options.job_name));
  } else if (path.empty()) {
    YOKE_TRY(path, next_run(options.job_name, options.date));
  }
  if (options.resume && !base::exists(path)) return refuse_state(State::kEmpty, true, path).error();
  YOKE_CHECK(base::make_folder(path));
  // Looked at before the lock too, which must not be put into a folder of somebody else's.
  YOKE_TRY(State state, look_into(path));
  if (state == State::kForeign) YOKE_CHECK(refuse_state(state, options.resume, path));
  YOKE_TRY(Descriptor lock, lock_folder(path));
  YOKE_TRY(state, look_into(path));
  YOKE_CHECK(refuse_state(state, options.resume, path));
  const bool resumes = state == State::kBegun || state == State::kFinished;
  if (!resumes) YOKE_CHECK(remove_leftovers(path));
  for (const char* part : {"logs", "checkpoints"}) YOKE_CHECK(base::make_folder(base::join_path(path, part)));
  std::error_code failure;
  const auto absolute = std::filesystem::absolute(path, failure);
  if (failure) return folder_error(path, failure.message());
  return RunFolder(absolute.lexically_normal().string(), std::move(lock), resumes);
}

std::string RunFolder::file(std::string_view name) const {
  return base::join_path(path_, name);
}

Result<std::vector<JobChange>> RunFolder::put_job(const plan::Job& job) const {
  std::vector<JobChange> changes;
  if (resumes_) {
    YOKE_TRY(const plan::Job before, plan::load_job(file("job.yaml")));
    changes = job_changes(before, job);
    for (const auto& change : changes) {
      if (!binds_the_run(change.key)) continue;
      return base::input_error(
          fmt::format("the run was begun with {} and cannot go on with {}; take the old value, or another --run-dir",
                      base::quote(change.before), base::quote(change.after)),
          {.file = file("job.yaml"), .field = change.key});
    }
  }
  YOKE_CHECK(base::publish_file(file("job.yaml"), plan::to_yaml(job)));
  return changes;
}

std::string as_typed(const std::string& absolute_path) {
  std::error_code failure;
  const auto here = std::filesystem::current_path(failure);
  if (failure) return absolute_path;
  const auto relative = std::filesystem::path(absolute_path).lexically_relative(here);
  const bool below = !relative.empty() && *relative.begin() != ".." && relative != ".";
  return below ? relative.string() : absolute_path;
}

}  // namespace yoke::cli
