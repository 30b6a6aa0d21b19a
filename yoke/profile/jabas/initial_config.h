// JABAS's initial GPU config (JSON): `{"0": 4, "1": 2}` starts worker 0 with 4 GPUs and worker 1 with 2. A worker's id
// is the position of its server in `available_servers`.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "yoke/base/result.h"

namespace yoke::profile::jabas {

using InitialConfig = std::map<int, int>;  // worker id -> GPUs

base::Result<InitialConfig> parse_initial_config(std::string_view text, const std::string& file);
std::string to_initial_config_json(const InitialConfig& config);

}  // namespace yoke::profile::jabas
