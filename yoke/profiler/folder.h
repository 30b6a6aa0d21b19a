// The profile folder while it is filled: belongs to one model, takes one node's measurements one by one, publishes each
// at once, and refuses what does not belong together.
#pragma once

#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/profile/layer_graph.h"
#include "yoke/profile/profile.h"

namespace yoke::profiler {

class Folder {
 public:
  /// What the measurements are of.
  struct Identity {
    std::string model;
    std::string node;
    std::string device_type;
    std::string setup;
  };

  /// Takes what is there of this node. Input error when the folder is of another model, or the node's file of another
  /// device or setup; with `again` a node of another device or setup begins anew. The folder is written to, so that one
  /// that cannot be is found before anything is measured.
  static base::Result<Folder> open(const std::string& path, const Identity& identity, bool again);

  profile::NodeProfile& node() { return node_; }
  const profile::NodeProfile& node() const { return node_; }
  /// Publishes the node's file, and JABAS's beside it.
  base::Status save_node() const;
  /// buckets.json, bucket.svg and JABAS's file.
  base::Status save_buckets(const profile::BucketProfile& buckets) const;

  /// What layers/<node>/<lbs>/ holds; nothing when it was not measured.
  base::Result<std::optional<profile::LayerGraph>> layers(int lbs) const;
  /// layers.json, graph.txt and charts in layers/<node>/<lbs>/. `main`: also as the folder's layers.json, which
  /// planners read.
  base::Status save_layers(int lbs, const profile::LayerGraph& graph, bool main) const;

 private:
  Folder(std::string path, std::string model) : path_(std::move(path)), model_(std::move(model)) {}
  std::string layers_folder(int lbs) const;
  profile::ProfileSet set_of_node() const;

  std::string path_;
  std::string model_;
  profile::NodeProfile node_;
};

}  // namespace yoke::profiler
