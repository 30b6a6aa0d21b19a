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
/// file is untouched and the temporary one removed; the error is of kind kPeer (a disk is full), or kInput where another
/// path would do: a folder or device of that name is in the way, its folder is missing or may not be written.
Status publish_file(const std::string& path, std::string_view content);

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
