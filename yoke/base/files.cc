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
  if (!file.valid()) return input_error(fmt::format("cannot open the file: {}", reason(errno)), {.file = path});
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

Error cannot_write(const std::string& path, int error_number) {
  // The path was not well chosen: the user can mend it, unlike a full disk.
  const bool mendable = error_number == EACCES || error_number == EPERM || error_number == EROFS ||
                        error_number == ENAMETOOLONG || error_number == ENOENT || error_number == ENOTDIR;
  const std::string message = fmt::format("cannot write here: {}", reason(error_number));
  return mendable ? input_error(message + "; choose another folder", {.file = path})
                  : peer_error(message, {.file = path});
}

Result<FileWriter> FileWriter::create(std::string path) {
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
  if (!file.valid()) return cannot_write(path, errno);
  // mkostemp makes the file private; what we publish is as readable as any new file.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(file.get(), 0666 & ~mask);
  return FileWriter(std::move(path), std::move(temporary), std::move(file));
}

FileWriter::FileWriter(std::string path, std::string temporary, Descriptor file)
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, {})), file_(std::move(other.file_)) {}

FileWriter::~FileWriter() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Error FileWriter::failure(std::string_view what, int error_number) const {
  return peer_error(fmt::format("cannot {}: {}", what, reason(error_number)), {.file = path_});
}

Status FileWriter::write(std::string_view content) {
  if (!write_all(file_.get(), content)) return failure("write", errno);
  return {};
}

Status FileWriter::publish() && {
  if (::fsync(file_.get()) != 0 || !file_.close()) return failure("write", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return failure("move the new file into place", errno);
  temporary_.clear();
  sync_folder(parent_folder(path_));
  return {};
}

Status publish_file(const std::string& path, std::string_view content) {
  YOKE_TRY(FileWriter file, FileWriter::create(path));
  YOKE_CHECK(file.write(content));
  return std::move(file).publish();
}

void sync_folder(const std::string& path) {
  const Descriptor folder(::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid()) ::fsync(folder.get());  // not every file system can; the content is safe already
}

AppendFile::AppendFile(Descriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

Result<AppendFile> AppendFile::open(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file.valid()) {
    return input_error(fmt::format("cannot open the file for writing: {}", reason(errno)), {.file = path});
  }
  return AppendFile(std::move(file), path);
}

Status AppendFile::append(std::string_view bytes) {
  if (!write_all(file_.get(), bytes))
    return peer_error(fmt::format("cannot write: {}", reason(errno)), {.file = path_});
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
