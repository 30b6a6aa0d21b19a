// Loads PipeDream's graph.txt for the tests and the benchmark of the pipeline solver.
#pragma once

#include <string>

#include "yoke/base/files.h"
#include "yoke/profile/pipedream/graph_text.h"

namespace yoke::plan {

inline profile::LayerGraph load_graph_text(const std::string& path) {
  return profile::pipedream::parse_graph_text(base::read_file(path).value(), path).value();
}

}  // namespace yoke::plan
