// The files of a profile folder as `yoke profile sync` moves them: names, checksums, and what may stand beside what.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "yoke/base/result.h"

namespace yoke::cli {

/// One file of a host. Names are relative, with `/` between their parts.
struct SyncFile {
  std::string name;
  std::int64_t bytes = 0;
  std::string sha256;
  std::string model;  // that it is of; empty: it does not say
  bool operator==(const SyncFile&) const = default;
};

using FileContents = std::map<std::string, std::string>;  // by name

/// More than this is no profile: it is refused before it fills the memory of all hosts.
inline constexpr std::int64_t kMostSyncBytes = 256 << 20;
inline constexpr std::size_t kMostSyncFiles = 10'000;

/// All files of the folder and of folders in it. Yoke's own are checked: they can be read, and all are of one model.
base::Result<FileContents> read_profile_files(const std::string& folder);

/// The file with its checksum; Yoke's own are read to see whether they are whole and of which model.
base::Result<SyncFile> describe_file(const std::string& name, const std::string& content, const std::string& place);

/// For the other hosts. Reading trusts nothing: names that lead out of the folder, sums that are none and more than a
/// profile folder may hold are errors.
std::string to_manifest(const std::vector<SyncFile>& files);
base::Result<std::vector<SyncFile>> parse_manifest(const std::string& text, const std::string& host);

struct HostFiles {
  std::string host;
  std::vector<SyncFile> files;
};
/// A file that every host shall have, and who gives it.
struct SharedFile {
  SyncFile file;
  std::size_t owner = 0;  // index of the host
  bool chosen = false;    // other hosts have another, as they may: the owner's counts
  bool operator==(const SharedFile&) const = default;
};
/// Everybody's files together, sorted by name; the same on every host. Input error naming the file, the hosts and both
/// checksums where two differ, or where two are of unlike models. If host `preferred` has the file, its own counts. Of
/// what every host measures and a folder holds once (layers.json, comm.json and the texts beside it), the first
/// host's counts otherwise.
base::Result<std::vector<SharedFile>> unite(const std::vector<HostFiles>& hosts, std::optional<std::size_t> preferred);

/// Input error if a file of the folder stands in the way of one of `files`: other content (unless `replace`), or
/// another model. Returns the names of those that are there already, just so.
base::Result<std::vector<std::string>> check_target(const std::string& folder, const std::vector<SharedFile>& files,
                                                    bool replace);

/// Whether files can be made in the folder, or the folder itself. Makes nothing.
base::Status check_writable(const std::string& folder);

}  // namespace yoke::cli
