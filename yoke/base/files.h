// Reading whole files and publishing them atomically. Nothing is ever left half-written: a reader sees the old file or
// the new one, also after a crash or a full disk.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/base/descriptor.h"
#include "yoke/base/result.h"

namespace yoke::base {

/// Larger files than this are no document of ours: they are refused before they fill the memory.
inline constexpr std::int64_t kMaxDocumentBytes = 64 * 1024 * 1024;

/// The whole content. Input error if the path is missing, a folder, unreadable or larger than `limit`.
Result<std::string> read_file(const std::string& path, std::int64_t limit = kMaxDocumentBytes);

/// A file that is written piece by piece into a temporary one beside `path` and appears there whole, or not at all: the
/// destructor removes what was not published. Errors are of kind kPeer (a disk is full), or kInput where another path
/// would do: a folder or device of that name is in the way, its folder is missing or may not be written. After an error
/// only destroy it. Movable; one thread only.
class FileWriter {
 public:
  static Result<FileWriter> create(std::string path);
  ~FileWriter();
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;

  Status write(std::string_view content);
  /// Syncs, renames over `path` and syncs the folder.
  Status publish() &&;

 private:
  FileWriter(std::string path, std::string temporary, Descriptor file);
  Error failure(std::string_view what, int error_number) const;

  std::string path_;
  std::string temporary_;  // empty: nothing to remove
  Descriptor file_;
};

/// A whole file by FileWriter: after a failure the old file is untouched.
Status publish_file(const std::string& path, std::string_view content);

/// Makes names that were added to the folder or renamed in it last through a power cut, where the file system can.
void sync_folder(const std::string& path);

/// The error for a path where nothing could be made: kInput if another path would do, kPeer otherwise.
Error cannot_write(const std::string& path, int error_number);

/// A file that grows at its end, for logs and metrics: each append is one write, so that whole lines of several
/// processes do not mix on a local disk, and a killed process leaves at most its last one torn. One thread only.
class AppendFile {
 public:
  /// Creates it where there is none; keeps what is in it.
  static Result<AppendFile> open(const std::string& path);

  /// Error of kind kPeer when the disk does not take it.
  Status append(std::string_view bytes);
  const std::string& path() const { return path_; }

 private:
  AppendFile(Descriptor file, std::string path);

  Descriptor file_;
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
