#include "yoke/plan/solve/batch/pool.h"

#include <algorithm>
#include <set>

namespace yoke::plan {

std::optional<double> price_per_hour(const cluster::Node& node) {
  if (node.price_per_hour) return node.price_per_hour;
  if (node.tflops) return kReferencePricePerHour * *node.tflops / kReferenceTflops;
  return std::nullopt;
}

Pool::Pool(const BatchCost& cost, std::span<const int> nodes, std::optional<int> idle_unit) {
  std::vector<std::pair<int, std::vector<std::size_t>>> kinds_of_node;
  for (const int node : nodes) {
    const cluster::Node& described = cost.cluster().nodes()[static_cast<std::size_t>(node)];
    const int device_class = cost.node_classes()[static_cast<std::size_t>(node)];
    const int step = std::min(idle_unit.value_or(described.devices), described.devices);
    kinds_of_node.emplace_back(node, std::vector<std::size_t>());
    for (int first = 0; first < described.devices; first += step) {
      const GranuleKind wanted{.device_class = device_class,
                               .devices = std::min(step, described.devices - first),
                               .price_per_hour = plan::price_per_hour(described),
                               .granules = {}};
      const auto found = std::find_if(kinds_.begin(), kinds_.end(), [&](const GranuleKind& kind) {
        return kind.device_class == wanted.device_class && kind.devices == wanted.devices &&
               kind.price_per_hour == wanted.price_per_hour;
      });
      const auto kind = found == kinds_.end() ? kinds_.insert(found, wanted) : found;
      kind->granules.push_back({.node = node, .first_device = first});
      kinds_of_node.back().second.push_back(static_cast<std::size_t>(kind - kinds_.begin()));
    }
  }
  std::set<Counts> known;
  for (const auto& [node, kinds] : kinds_of_node) {
    Counts holding(kinds_.size(), 0);
    for (const std::size_t kind : kinds) ++holding[kind];
    if (known.insert(holding).second) node_holdings_.emplace_back(node, std::move(holding));
  }
}

Counts Pool::everything() const {
  Counts counts;
  for (const GranuleKind& kind : kinds_) counts.push_back(kind.count());
  return counts;
}

int Pool::devices(const Counts& counts) const {
  int devices = 0;
  for (std::size_t i = 0; i < kinds_.size(); ++i) devices += counts[i] * kinds_[i].devices;
  return devices;
}

std::optional<double> Pool::price_per_hour(const Counts& counts) const {
  double price = 0;
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    if (counts[i] == 0) continue;
    if (!kinds_[i].price_per_hour) return std::nullopt;
    price += counts[i] * kinds_[i].devices * *kinds_[i].price_per_hour;
  }
  return price;
}

std::optional<int> Pool::single_node(const Counts& counts) const {
  for (const auto& [node, holding] : node_holdings_) {
    if (std::equal(counts.begin(), counts.end(), holding.begin(), std::less_equal<>())) return node;
  }
  return std::nullopt;
}

std::vector<std::vector<Granule>> Pool::placement(const Counts& counts) const {
  const std::optional<int> only = single_node(counts);
  std::vector<std::vector<Granule>> chosen(kinds_.size());
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    for (const Granule& granule : kinds_[i].granules) {
      if (static_cast<int>(chosen[i].size()) == counts[i]) break;
      if (!only || granule.node == *only) chosen[i].push_back(granule);
    }
  }
  return chosen;
}

Extent Pool::extent(const Counts& counts) const {
  return {.devices = devices(counts), .across_nodes = !single_node(counts).has_value()};
}

std::vector<Counts> Pool::single_node_choices() const {
  std::set<Counts> choices;
  for (const auto& [node, holding] : node_holdings_) {
    // Count through all vectors from 0 to the holding, like an odometer.
    Counts counts(kinds_.size(), 0);
    for (std::size_t i = 0; i < counts.size();) {
      if (counts[i] == holding[i]) {
        counts[i++] = 0;
        continue;
      }
      ++counts[i];
      choices.insert(counts);
      i = 0;
    }
  }
  return {choices.begin(), choices.end()};
}

}  // namespace yoke::plan
