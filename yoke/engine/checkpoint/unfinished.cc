#include "yoke/engine/checkpoint/unfinished.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "yoke/base/files.h"
#include "yoke/base/text.h"

namespace yoke::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = ".tmp-";

/// Ids of processes are used again; together with when it was started, one names a process for good. 0: not known.
long long started(pid_t pid) {
  std::string text;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), text);
  // `pid (name) state ...`, with anything at all in the name; the 22nd field is the time in ticks since the boot.
  const auto fields = base::split(std::string_view(text).substr(text.rfind(')') + 1), " ");
  constexpr std::size_t kStartTime = 22 - 2;
  long long ticks = 0;
  if (fields.size() > kStartTime) {
    std::from_chars(fields[kStartTime].data(), fields[kStartTime].data() + fields[kStartTime].size(), ticks);
  }
  return ticks;
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

struct Owner {
  std::string host;
  pid_t pid = 0;
  long long started = 0;
};

/// From `.tmp-<host>-<pid>-<started>-<count>`; a host's name may have dashes too.
std::optional<Owner> owner_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto words = base::split(name.substr(kPrefix.size()), "-");
  if (words.size() < 4) return std::nullopt;
  Owner owner;
  const auto number = [&](std::size_t from_end, auto& value) {
    const std::string_view word = words[words.size() - from_end];
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc() && end == word.data() + word.size() && value >= 0;
  };
  int count = 0;
  if (!number(3, owner.pid) || !number(2, owner.started) || !number(1, count) || owner.pid == 0) return std::nullopt;
  owner.host = fmt::format("{}", fmt::join(words.begin(), words.end() - 3, "-"));
  return owner;
}

bool is_alive(const Owner& owner) {
  if (::kill(owner.pid, 0) != 0 && errno == ESRCH) return false;
  return owner.started == 0 || started(owner.pid) == owner.started;
}

/// A path for something of this process.
std::string free_path(const std::string& folder) {
  const std::string owner = fmt::format("{}{}-{}-{}", kPrefix, host_name(), ::getpid(), started(::getpid()));
  for (int count = 0;; ++count) {
    std::string path = base::join_path(folder, fmt::format("{}-{}", owner, count));
    if (!base::exists(path)) return path;
  }
}

}  // namespace

base::Result<std::string> make_unfinished(const std::string& folder) {
  const std::string path = free_path(folder);
  if (::mkdir(path.c_str(), 0777) != 0) return base::cannot_write(folder, errno);
  return path;
}

void discard(const std::string& folder, const std::string& path) {
  const std::string away = free_path(folder);
  if (::rename(path.c_str(), away.c_str()) != 0) return;
  std::error_code ignored;
  fs::remove_all(away, ignored);
}

void remove_abandoned(const std::string& folder) {
  const auto names = base::list_folder(folder);
  if (!names.ok()) return;
  const std::string host = host_name();
  for (const auto& name : *names) {
    const auto owner = owner_of(name);
    if (!owner || owner->host != host || is_alive(*owner)) continue;
    std::error_code ignored;  // the next save tries again
    fs::remove_all(base::join_path(folder, name), ignored);
  }
}

}  // namespace yoke::engine
