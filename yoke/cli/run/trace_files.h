// The timelines of the ranks, trace/rank-N.json in the run folder, and the one made of them, trace.json.
#pragma once

#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/base/trace.h"
#include "yoke/engine/rank.h"

namespace yoke::cli {

/// An empty trace/ without the files of an earlier start.
base::Status prepare_traces(const std::string& folder);
/// Rank `rank` is one process of the timeline, named after its device.
base::Status write_trace(const std::string& folder, int rank, const engine::DeviceSpec& device,
                         const base::Trace& trace);
/// Publishes trace.json; returns the ranks that have left no timeline.
base::Result<std::vector<int>> merge_trace_files(const std::string& folder, int ranks);

}  // namespace yoke::cli
