// `yoke profile comm`: how fast the links between devices and between hosts are.
#pragma once

#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/cli/command.h"
#include "yoke/cli/host_meeting.h"
#include "yoke/profile/profile.h"

namespace yoke::cli {

/// As typed. Defaults measure two devices of this machine.
struct CommOptions {
  std::string model;  // links do not depend on it; taken because all profile commands are
  std::string out = "profiles";
  std::string launcher = "local";  // local, mpi, hosts
  std::string cluster;             // whose devices, and whose nominal bandwidths
  std::vector<int> devices;        // of every host, or of each
  std::vector<std::string> backends;
  std::vector<std::string> sizes;
  std::string budget = "20s";
  std::string intra_bandwidth;
  std::string inter_bandwidth;
  HostOptions hosts;
  bool as_rank = false;    // started by this command for one device
  bool only_here = false;  // nodes of the cluster on other hosts are left out, not refused
};

struct CommOutcome {
  profile::CommProfile profile;  // the same on all ranks and hosts
  bool writes = true;            // false on ranks whose host has another that writes
  bool interrupted = false;      // asked to stop: nothing was measured
};

/// Measures; writes nothing. Used by `yoke profile all` too.
base::Result<CommOutcome> profile_comm(const CommOptions& options, Context& context);

/// Checks, before anything is measured, that the folder can take the result.
base::Status check_comm_folder(const std::string& folder);
/// comm.json, with what an older one had of the scope that was not measured now, and the same points for JABAS in
/// comm_profile_data/. Returns the names of the files.
base::Result<std::vector<std::string>> save_comm_profile(const std::string& folder, const profile::CommProfile& comm);

/// One line for each link: what was fitted, and how well.
std::string describe_links(const profile::CommProfile& comm);

void add_profile_comm(CLI::App& group, Action& chosen);

}  // namespace yoke::cli
