#include "yoke/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace yoke::base {
namespace {

namespace fs = std::filesystem;

std::string reason(int error_number) {
  return std::generic_category().message(error_number);
}

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  /// Closes now and tells whether the kernel had a delayed error for us.
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::int64_t limit) {
  // Not blocking, so that a pipe without a writer is an error below instead of a wait without end.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.open()) return input_error(fmt::format("cannot open the file: {}", reason(errno)), {.file = path});
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return input_error(reason(errno), {.file = path});
  if (S_ISDIR(info.st_mode)) return input_error("found a folder, expected a file", {.file = path});
  if (!S_ISREG(info.st_mode)) return input_error("found a device or pipe, expected a regular file", {.file = path});
  if (info.st_size > limit) {
    return input_error(fmt::format("found {} bytes, expected at most {}; is this the right file?", info.st_size, limit),
                       {.file = path});
  }
  std::string content(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t filled = 0;
  while (filled < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return peer_error(fmt::format("cannot read: {}", reason(errno)), {.file = path});
    if (got == 0) break;  // shrank while we read
    filled += static_cast<std::size_t>(got);
  }
  content.resize(filled);
  return content;
}

Status publish_file(const std::string& path, std::string_view content) {
  const auto fail = [&](std::string_view what, int number) -> Status {
    return peer_error(fmt::format("cannot {}: {}; the file is as it was", what, reason(number)), {.file = path});
  };
  struct stat present {};
  if (::stat(path.c_str(), &present) == 0 && !S_ISREG(present.st_mode)) {
    return input_error(fmt::format("found a {}, expected a file that may be replaced; choose another name",
                                   S_ISDIR(present.st_mode) ? "folder" : "device or pipe"),
                       {.file = path});
  }
  const std::string folder = parent_folder(path);
  if (!folder.empty() && !is_folder(folder)) {
    return input_error(fmt::format("found no folder {}, expected one to write into; make it first", folder),
                       {.file = path});
  }
  std::string temporary = path + ".XXXXXX";
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.open()) {
    const int number = errno;
    // The path was not well chosen: the user can mend it, unlike a full disk.
    const bool mendable =
        number == EACCES || number == EPERM || number == EROFS || number == ENAMETOOLONG || number == ENOENT;
    const std::string message = fmt::format("cannot write here: {}", reason(number));
    return mendable ? input_error(message + "; choose another folder", {.file = path})
                    : peer_error(message, {.file = path});
  }
  // mkostemp makes the file private; what we publish is as readable as any new file.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(file.get(), 0666 & ~mask);
  const bool written = write_all(file.get(), content) && ::fsync(file.get()) == 0 && file.close();
  if (!written || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const int number = errno;
    ::unlink(temporary.c_str());
    return fail(written ? "move the new file into place" : "write", number);
  }
  Descriptor directory(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.open()) ::fsync(directory.get());  // not every file system can; the content is safe already
  return {};
}

AppendFile::AppendFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

Result<AppendFile> AppendFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return input_error(fmt::format("cannot open the file for writing: {}", reason(errno)), {.file = path});
  return AppendFile(fd, path);
}

Status AppendFile::append(std::string_view bytes) {
  if (!write_all(fd_, bytes)) return peer_error(fmt::format("cannot write: {}", reason(errno)), {.file = path_});
  return {};
}

Status make_folder(const std::string& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code || !is_folder(path)) {
    return input_error(fmt::format("cannot make the folder: {}", code ? code.message() : "a file is in the way"),
                       {.file = path});
  }
  return {};
}

Result<std::vector<std::string>> list_folder(const std::string& path) {
  std::error_code code;
  if (fs::exists(path, code) && !fs::is_directory(path, code)) {
    return input_error("found a file, expected a folder", {.file = path});
  }
  fs::directory_iterator entries(path, code);
  if (code) return input_error(fmt::format("cannot read the folder: {}", code.message()), {.file = path});
  std::vector<std::string> names;
  for (; entries != fs::directory_iterator(); entries.increment(code)) {
    names.push_back(entries->path().filename().string());
    if (code) return input_error(fmt::format("cannot read the folder: {}", code.message()), {.file = path});
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool exists(const std::string& path) {
  std::error_code code;
  return fs::exists(fs::symlink_status(path, code));
}

bool is_folder(const std::string& path) {
  std::error_code code;
  return fs::is_directory(path, code);
}

bool is_file(const std::string& path) {
  std::error_code code;
  return fs::is_regular_file(path, code);
}

std::string join_path(std::string_view folder, std::string_view name) {
  return (fs::path(folder) / fs::path(name)).string();
}

std::string parent_folder(std::string_view path) {
  return fs::path(path).parent_path().string();
}

}  // namespace yoke::base
