// PipeDream's partition config (JSON): which stage each module of the generated model is in, which ranks run each
// stage, and, optionally, how many minibatches each stage lets in before its first backward pass.
//
//   {"module_to_stage_map": [0, 1, 1], "stage_to_rank_map": {"0": [0, 1], "1": [2]}, "stage_to_depth_map": {"0": 1,
//   "1": 0}}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "yoke/base/result.h"

namespace yoke::profile::pipedream {

struct Partition {
  std::vector<int> stage_of_module;              // the last module is the loss
  std::vector<std::vector<int>> ranks_of_stage;  // every rank from 0 on in exactly one stage
  std::vector<int> warmup_of_stage;              // empty: not given

  bool operator==(const Partition&) const = default;
};

struct ImportedPartition {
  Partition partition;
  std::vector<std::string> ignored;  // keys that nothing uses, one line each
};

base::Result<ImportedPartition> parse_partition(std::string_view text, const std::string& file);
std::string to_partition_json(const Partition& partition);

}  // namespace yoke::profile::pipedream
