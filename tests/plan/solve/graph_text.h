// Reads PipeDream's graph.txt for the tests of the pipeline solver.
#pragma once

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/profile/layer_graph.h"

namespace yoke::plan {

inline profile::LayerGraph load_graph_text(const std::string& path) {
  const std::string text = base::read_file(path).value();
  std::vector<profile::Layer> layers;
  std::vector<profile::Edge> edges;
  std::map<std::string, int, std::less<>> index;
  for (const std::string_view line : base::split(base::trim(text), "\n")) {
    const auto fields = base::split(line, " -- ");
    if (line.starts_with('\t')) {
      edges.push_back({index.at(std::string(fields[0].substr(1))), index.at(std::string(fields[1]))});
      continue;
    }
    const auto items = base::split(fields[2], ", ");
    const auto value = [&](std::size_t i) { return std::string(base::split(items[i], "=")[1]); };
    profile::Layer layer{.id = std::string(fields[0]), .description = std::string(fields[1])};
    layer.forward_ms = std::strtod(value(0).c_str(), nullptr);
    layer.backward_ms = std::strtod(value(1).c_str(), nullptr);
    layer.output_bytes.clear();
    std::string sizes = value(2);
    std::erase_if(sizes, [](char c) { return c == '[' || c == ']'; });
    for (const auto size : base::split(sizes, "; ")) {
      layer.output_bytes.push_back(std::strtod(std::string(size).c_str(), nullptr));
    }
    layer.parameter_bytes = std::strtod(value(3).c_str(), nullptr);
    index.emplace(layer.id, static_cast<int>(layers.size()));
    layers.push_back(std::move(layer));
  }
  return profile::LayerGraph::make(std::move(layers), std::move(edges)).value();
}

}  // namespace yoke::plan
