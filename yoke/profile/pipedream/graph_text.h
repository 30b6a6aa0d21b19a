// PipeDream's layer profile, `graph.txt`: one line per layer, then one line per edge that starts with a tab.
//
//   node4 -- Embedding(32320, 1024) -- forward_compute_time=0.073, backward_compute_time=6.949,
//            activation_size=6291456.0, parameter_size=132382720.000 -- stage_id=1          (all on one line)
//   <tab>node1 -- node4
//
// Times are milliseconds, sizes bytes, of one minibatch. The four numbers count by position, as PipeDream reads them;
// a layer with several outputs writes `activation_size=[a; b]`; `stage_id` is optional.
#pragma once

#include <string>
#include <string_view>

#include "yoke/base/result.h"
#include "yoke/profile/layer_graph.h"

namespace yoke::profile::pipedream {

/// Layers and edges keep the order of the file; an edge may stand before the layers it joins. `file` is for messages.
base::Result<LayerGraph> parse_graph_text(std::string_view text, const std::string& file);
base::Result<LayerGraph> load_graph_text(const std::string& path);

/// Parses back to an equal graph. Numbers have three decimals, as PipeDream writes them, or more where they need more.
std::string to_graph_text(const LayerGraph& graph);

}  // namespace yoke::profile::pipedream
