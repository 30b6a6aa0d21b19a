// The devices a solver may use, counted by kind instead of one by one. A granule is a part of a node that is used or
// left idle as a whole: the node itself, or `idle_unit` devices of it (the last granule of a node may be smaller).
// Granules of one kind are interchangeable, so a choice of devices is just a count per kind. Immutable.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "yoke/plan/cost/batch_cost.h"

namespace yoke::plan {

/// What JABAS charges for a device of unknown price: that of a V100 by the hour, in proportion to peak TFLOPS.
inline constexpr double kReferencePricePerHour = 3.06;
inline constexpr double kReferenceTflops = 14.13;
/// Of one device; nullopt when neither price nor TFLOPS are known.
std::optional<double> price_per_hour(const cluster::Node& node);

struct Granule {
  int node = 0;  // position in the cluster
  int first_device = 0;

  bool operator==(const Granule&) const = default;
};

struct GranuleKind {
  int device_class = 0;
  int devices = 1;                       // of one granule
  std::optional<double> price_per_hour;  // of one device
  std::vector<Granule> granules;         // in cluster order

  int count() const { return static_cast<int>(granules.size()); }
};

/// Granules in use, per kind.
using Counts = std::vector<int>;

class Pool {
 public:
  /// `nodes`: positions in the cluster. Without `idle_unit` a node is one granule.
  Pool(const BatchCost& cost, std::span<const int> nodes, std::optional<int> idle_unit);

  const std::vector<GranuleKind>& kinds() const { return kinds_; }
  Counts everything() const;
  int devices(const Counts& counts) const;
  /// nullopt when some price is not known.
  std::optional<double> price_per_hour(const Counts& counts) const;
  /// The granules that `counts` stands for: all on the first node that can hold them, if one can; else the first of
  /// each kind. (Links inside a node are taken to be no slower than those between nodes.) In cluster order within a
  /// kind.
  std::vector<std::vector<Granule>> placement(const Counts& counts) const;
  Extent extent(const Counts& counts) const;
  /// Every choice of granules that fits on a single node, each once.
  std::vector<Counts> single_node_choices() const;

 private:
  /// The first node that has `counts` granules of each kind.
  std::optional<int> single_node(const Counts& counts) const;

  std::vector<GranuleKind> kinds_;
  std::vector<std::pair<int, Counts>> node_holdings_;  // the first node of each shape, and its granules per kind
};

}  // namespace yoke::plan
