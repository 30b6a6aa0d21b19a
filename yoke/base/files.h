// Reading whole files and publishing them atomically. Nothing is ever left half-written: a reader sees the old file or
// the new one, also after a crash or a full disk.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/base/result.h"

namespace yoke::base {

/// Larger files than this are no document of ours: they are refused before they fill the memory.
inline constexpr std::int64_t kMaxDocumentBytes = 64 * 1024 * 1024;

/// The whole content. Input error if the path is missing, a folder, unreadable or larger than `limit`.
Result<std::string> read_file(const std::string& path, std::int64_t limit = kMaxDocumentBytes);

/// Writes a temporary file beside `path`, syncs it, renames it over `path` and syncs the folder. On failure the old
/// file is untouched and the temporary one removed; the error is of kind kPeer (a disk is full), or kInput where
/// another path would do: a folder or device of that name is in the way, its folder is missing or may not be written.
Status publish_file(const std::string& path, std::string_view content);

/// A file that grows at its end, for logs and metrics: each append is one write, so that whole lines of several
/// processes do not mix on a local disk, and a killed process leaves at most its last one torn. One thread only.
class AppendFile {
 public:
  /// Creates it where there is none; keeps what is in it.
  static Result<AppendFile> open(const std::string& path);
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;

  /// Error of kind kPeer when the disk does not take it.
  Status append(std::string_view bytes);
  const std::string& path() const { return path_; }

 private:
  AppendFile(int fd, std::string path);

  int fd_;
  std::string path_;
};

/// Creates the folder and its parents; fine if it is there. Error if a part of the path is a file.
Status make_folder(const std::string& path);

/// Names (not paths) of what is in the folder, sorted, so that no result depends on the file system's order.
Result<std::vector<std::string>> list_folder(const std::string& path);

/// Whether there is anything of that name, also a link to nothing.
bool exists(const std::string& path);
bool is_folder(const std::string& path);
bool is_file(const std::string& path);

/// `folder/name`; `name` alone when it is absolute or `folder` is empty.
std::string join_path(std::string_view folder, std::string_view name);
/// The folder part of a path, "" when there is none.
std::string parent_folder(std::string_view path);

}  // namespace yoke::base
