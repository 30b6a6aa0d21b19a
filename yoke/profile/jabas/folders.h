// The profile folders of JABAS and IIDP as one ProfileSet:
//
//   <memory>/<lbs>/<host>/max_memory_profile_info.json      <compute>/<lbs>/<host>/*.json, one for each vsw
//   <comm>/*intra*.txt, <comm>/*inter*.txt                  <bucket>/*.json
#pragma once

#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/profile/profile.h"

namespace yoke::profile::jabas {

struct Folders {
  std::string memory;
  std::string compute;
  std::string comm;
  std::string bucket;
};

/// A server whose profiles are wanted, and the GPU type the cluster says it has (empty: not known, not checked).
struct Server {
  std::string name;
  std::string gpu_type;
};

struct ImportedProfiles {
  ProfileSet profiles;             // nodes in the order of the servers
  std::vector<std::string> notes;  // what was left out or looks incomplete, one line each, for people
};

/// Every server must have memory and compute profiles, of its GPU type, in the folder of their own lbs, each vsw once.
/// Profiles of `others`, hosts of the cluster that are not wanted, are noted; so are stray files and unused keys. A host
/// that is neither is an error: its name is misspelt, or the profiles are of another cluster. Of several bucket files
/// the last by name counts, as in JABAS.
base::Result<ImportedProfiles> load_folders(const Folders& folders, const std::vector<Server>& servers,
                                            const std::vector<std::string>& others = {});

/// Writes folders that load_folders reads back to an equal set. Files of other names are left alone.
base::Status save_folders(const Folders& folders, const ProfileSet& profiles);

}  // namespace yoke::profile::jabas
