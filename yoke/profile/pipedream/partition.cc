#include "yoke/profile/pipedream/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "yoke/base/document.h"
#include "yoke/base/json.h"
#include "yoke/base/text.h"

namespace yoke::profile::pipedream {
namespace {

using base::View;

constexpr base::Range kIndex{.least = 0, .most = 1e6};

/// The entries of a map from stages, `{"0": .., "1": ..}`, by stage. Every stage must be there.
std::vector<View> by_stage(View map, std::size_t stages) {
  auto entries = map.entries();
  std::vector<View> views;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const auto& entry) { return entry.first == std::to_string(stage); });
    if (found == entries.end()) {
      map.fail(fmt::format("the stage {} is missing, expected stages 0 to {}", stage, stages - 1));
      return {};
    }
    views.push_back(found->second);
  }
  if (entries.size() != stages) {
    map.fail(fmt::format("found {} stages, expected {}, as many as module_to_stage_map names", entries.size(), stages));
  }
  return views;
}

std::vector<int> read_modules(View list) {
  std::vector<int> stages;
  for (View item : list.items()) stages.push_back(static_cast<int>(item.integer(kIndex)));
  if (stages.empty()) list.fail("found no module, expected at least one");
  return stages;
}

/// Stages count from 0 without a gap.
std::size_t count_stages(View list, const std::vector<int>& stage_of_module) {
  const std::set<int> stages(stage_of_module.begin(), stage_of_module.end());
  if (!stages.empty() && *stages.rbegin() != static_cast<int>(stages.size()) - 1) {
    list.fail(
        fmt::format("found {} stages up to number {}, expected none to be left out", stages.size(), *stages.rbegin()));
  }
  return stages.size();
}

std::vector<std::vector<int>> read_ranks(View map, std::size_t stages) {
  std::vector<std::vector<int>> ranks_of_stage;
  std::set<int> seen;
  for (View stage : by_stage(map, stages)) {
    std::vector<int> ranks;
    for (View item : stage.items()) {
      ranks.push_back(static_cast<int>(item.integer(kIndex)));
      if (!seen.insert(ranks.back()).second) {
        item.fail(fmt::format("the rank {} is in two stages or twice in one", ranks.back()));
      }
    }
    if (ranks.empty()) stage.fail("found no rank, expected at least one");
    ranks_of_stage.push_back(std::move(ranks));
  }
  if (!seen.empty() && *seen.rbegin() != static_cast<int>(seen.size()) - 1) {
    map.fail(fmt::format("found {} ranks up to number {}, expected none to be left out", seen.size(), *seen.rbegin()));
  }
  return ranks_of_stage;
}

}  // namespace

base::Result<ImportedPartition> parse_partition(std::string_view text, const std::string& file) {
  YOKE_TRY(const base::Document document, base::parse_json(text, file));
  base::Reader reader(document);
  View root = reader.root();
  ImportedPartition imported;
  Partition& partition = imported.partition;
  View modules = root.field("module_to_stage_map");
  partition.stage_of_module = read_modules(modules);
  const std::size_t stages = count_stages(modules, partition.stage_of_module);
  partition.ranks_of_stage = read_ranks(root.field("stage_to_rank_map"), stages);
  if (auto depths = root.find("stage_to_depth_map")) {
    for (View depth : by_stage(*depths, stages)) {
      partition.warmup_of_stage.push_back(static_cast<int>(depth.integer(kIndex)));
    }
  }
  for (const auto& key : root.unread()) imported.ignored.push_back(fmt::format("{}: {}", file, base::quote(key)));
  if (!reader.ok()) return reader.error();
  return imported;
}

std::string to_partition_json(const Partition& partition) {
  base::Json json{{"module_to_stage_map", partition.stage_of_module}};
  for (std::size_t stage = 0; stage < partition.ranks_of_stage.size(); ++stage) {
    json["stage_to_rank_map"][std::to_string(stage)] = partition.ranks_of_stage[stage];
  }
  for (std::size_t stage = 0; stage < partition.warmup_of_stage.size(); ++stage) {
    json["stage_to_depth_map"][std::to_string(stage)] = partition.warmup_of_stage[stage];
  }
  return json.dump(4) + "\n";
}

}  // namespace yoke::profile::pipedream
