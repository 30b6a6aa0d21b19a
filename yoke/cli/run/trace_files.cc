#include "yoke/cli/run/trace_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "yoke/base/files.h"

namespace yoke::cli {
namespace {

/// A timeline of an hour at a hundred events a second takes 50 MB.
constexpr std::int64_t kLargestTrace = std::int64_t{2} << 30U;

std::string trace_file(const std::string& folder, int rank) {
  return base::join_path(folder, fmt::format("trace/rank-{}.json", rank));
}

}  // namespace

base::Status prepare_traces(const std::string& folder) {
  const std::string path = base::join_path(folder, "trace");
  std::error_code failure;
  std::filesystem::remove_all(path, failure);
  if (failure) return base::peer_error("cannot remove it: " + failure.message(), {.file = path});
  return base::make_folder(path);
}

base::Status write_trace(const std::string& folder, int rank, const engine::DeviceSpec& device,
                         const base::Trace& trace) {
  const std::string name = fmt::format("rank {} ({})", rank, device.id.to_string());
  return base::publish_file(trace_file(folder, rank), trace.to_json_as(rank, name));
}

base::Result<std::vector<int>> merge_trace_files(const std::string& folder, int ranks) {
  std::vector<int> absent;
  std::vector<std::string> timelines;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = trace_file(folder, rank);
    if (!base::exists(path)) {
      absent.push_back(rank);
      continue;
    }
    YOKE_TRY(std::string text, base::read_file(path, kLargestTrace));
    timelines.push_back(std::move(text));
  }
  YOKE_TRY(const std::string merged, base::merge_traces(timelines));
  YOKE_CHECK(base::publish_file(base::join_path(folder, "trace.json"), merged));
  return absent;
}

}  // namespace yoke::cli
