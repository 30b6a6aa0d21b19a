// The profile commands, and what they share.
#pragma once

#include <iosfwd>

#include "yoke/cli/command.h"
#include "yoke/profile/profile.h"

namespace yoke::cli {

/// `memory`, `compute`, `layers`, `bucket` and `all`.
void add_profile_measurements(CLI::App& group, Action& chosen);

/// A table of memory and times, a row for each node, local batch size and number of workers.
void print_nodes(const profile::ProfileSet& profiles, std::ostream& out);
void print_buckets(const profile::BucketProfile& buckets, std::ostream& out);
Json to_json(const profile::ProfileSet& profiles);

}  // namespace yoke::cli
