// Folders for what is not whole: a checkpoint that is being written or removed. Their names begin with `.tmp-` and say
// whose they are, so that what a process leaves that dies can be told from what another one is writing right now.
#pragma once

#include <string>

#include "yoke/base/result.h"

namespace yoke::engine {

/// Makes a new, empty one in `folder` for this process and returns its path.
base::Result<std::string> make_unfinished(const std::string& folder);

/// Takes a folder out of sight at once and then removes it. One that cannot be moved stays; the next save tries again.
void discard(const std::string& folder, const std::string& path);

/// Removes those of processes of this host that are dead. (Of other hosts, with which the folder may be shared, nobody
/// here can tell.)
void remove_abandoned(const std::string& folder);

}  // namespace yoke::engine
