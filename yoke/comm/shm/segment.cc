#include "yoke/comm/shm/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <utility>

#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/comm/store/socket.h"

namespace yoke::comm::shm {
namespace {

constexpr std::string_view kFolder = "/dev/shm";
constexpr std::string_view kRefused = "refused: ";

/// `yoke-<process namespace>-<pid>-`: from the name alone one can tell whether the maker still lives.
std::string prefix_in_namespace() {
  struct stat info {};
  const bool known = ::stat("/proc/self/ns/pid", &info) == 0;
  return fmt::format("yoke-{:x}-", known ? info.st_ino : 0);
}

/// Removes segments whose maker died before it could unlink them.
void remove_stale() {
  const std::string prefix = prefix_in_namespace();
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix)) continue;
    const auto pid = base::parse_integer(name.substr(prefix.size(), name.find('-', prefix.size()) - prefix.size()));
    if (!pid.ok() || *pid <= 0) continue;
    if (::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH) ::shm_unlink(("/" + name).c_str());
  }
}

base::Result<std::span<std::byte>> map(const Descriptor& file, std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) {
    return base::peer_error(fmt::format("cannot map {} of shared memory: {}",
                                        base::format(base::Bytes{static_cast<std::int64_t>(bytes)}),
                                        std::strerror(errno)));
  }
  return std::span(static_cast<std::byte*>(memory), bytes);
}

/// A name in /dev/shm that is removed at the end of a scope.
struct Name {
  std::string path;
  ~Name() { ::shm_unlink(path.c_str()); }
};

base::Result<std::span<std::byte>> create(const std::string& path, std::size_t bytes) {
  const Descriptor file(::shm_open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) {
    return base::peer_error(fmt::format("cannot create {}{}: {}; is {} mounted and writable?", kFolder, path,
                                        std::strerror(errno), kFolder));
  }
  // Reserved now: a full /dev/shm is an error here instead of a SIGBUS at some later write.
  const int problem = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  if (problem != 0) {
    return base::peer_error(
        fmt::format("cannot reserve {} in {}: {}; make room there, give it more (containers: "
                    "--shm-size), or use the gloo backend",
                    base::format(base::Bytes{static_cast<std::int64_t>(bytes)}), kFolder, std::strerror(problem)));
  }
  return map(file, bytes);
}

base::Result<std::span<std::byte>> open(const std::string& path, std::size_t bytes) {
  const Descriptor file(::shm_open(path.c_str(), O_RDWR | O_CLOEXEC, 0));
  if (!file.valid()) {
    return base::peer_error(
        fmt::format("cannot open {}{}: {}; ranks on shared memory must see the same {} and run as "
                    "the same user",
                    kFolder, path, std::strerror(errno), kFolder));
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || static_cast<std::size_t>(info.st_size) != bytes) {
    return base::peer_error(fmt::format("{}{} has {} bytes, expected {}; do all ranks run the same version?", kFolder,
                                        path, info.st_size, bytes));
  }
  return map(file, bytes);
}

/// Rank 0 waits until the others have mapped the segment; whoever cannot says why.
base::Status gather_opened(const BackendOptions& options, const std::string& log, const base::Deadline& deadline) {
  std::size_t opened = 0;
  const auto others = static_cast<std::size_t>(options.size) - 1;
  while (opened < others) {
    YOKE_TRY(const auto entries, options.store->read(log, opened, deadline));
    if (entries.empty()) {
      return base::peer_error(fmt::format("only {} of {} ranks have opened the shared memory of group `{}` in time",
                                          opened + 1, options.size, options.name));
    }
    for (const auto& entry : entries) {
      if (!entry.empty()) return base::peer_error(entry);
    }
    opened += entries.size();
  }
  return {};
}

}  // namespace

base::Result<Segment> Segment::meet(const BackendOptions& options, std::size_t bytes, const base::Deadline& deadline) {
  Store& store = *options.store;
  const std::string key = options.name + "/shm";
  const std::string log = key + "/opened";
  if (options.rank == 0) {
    remove_stale();
    const Name name{fmt::format("/{}{}-{:08x}", prefix_in_namespace(), ::getpid(), std::random_device{}())};
    auto memory = create(name.path, bytes);
    YOKE_CHECK(store.set(key, memory.ok() ? name.path : std::string(kRefused) + memory.error().message, deadline));
    if (!memory.ok()) return memory.error();
    Segment segment(*memory);
    YOKE_CHECK(gather_opened(options, log, deadline));
    return segment;
  }
  YOKE_TRY(const std::string path, store.get(key, deadline));
  if (path.starts_with(kRefused)) return base::peer_error("rank 0 of this host: " + path.substr(kRefused.size()));
  auto memory = open(path, bytes);
  YOKE_CHECK(store.append(log, memory.ok() ? "" : memory.error().message, deadline));
  if (!memory.ok()) return memory.error();
  return Segment(*memory);
}

Segment::Segment(Segment&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}

Segment::~Segment() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
}

}  // namespace yoke::comm::shm
