// Yoke's own profile folder (docs/formats/profile.md):
//
//   <folder>/nodes/<node>.json    memory and compute of one node; gathering nodes is copying these files
//   <folder>/buckets.json         gradient buckets of the model
//   <folder>/comm.json            all-reduce times
//   <folder>/layers.json          the layer graph, when it was profiled
//
// Every file is published atomically, versioned, and checked when it is read; unknown keys are errors.
#pragma once

#include <string>
#include <string_view>

#include "yoke/base/json.h"
#include "yoke/base/result.h"
#include "yoke/profile/layer_graph.h"
#include "yoke/profile/profile.h"

namespace yoke::profile {

/// Nodes are sorted by name. At least one node must be there; buckets and comm may be absent. All files must be of one
/// model.
base::Result<ProfileSet> load_profiles(const std::string& folder);
/// Writes the nodes of `profiles` and, unless empty, its buckets and comm. Files of other nodes stay.
base::Status save_profiles(const std::string& folder, const ProfileSet& profiles);

/// <folder>/comm.json; empty when there is none.
base::Result<CommProfile> load_comm(const std::string& folder);
base::Status save_comm(const std::string& folder, const CommProfile& comm);

/// <folder>/layers.json.
base::Result<LayerGraph> load_layers(const std::string& folder);
base::Status save_layers(const std::string& folder, const LayerGraph& graph);
/// From a PipeDream graph.txt, a layers.json, or the folder that holds one, told apart by what is there.
base::Result<LayerGraph> load_layer_graph(const std::string& path);

// The text of each file.

struct NodeFile {
  std::string model;
  NodeProfile profile;
  bool operator==(const NodeFile&) const = default;
};
base::Result<NodeFile> parse_node_file(std::string_view text, const std::string& file);
std::string to_node_json(const NodeFile& node);

struct BucketsFile {
  std::string model;
  BucketProfile buckets;
  bool operator==(const BucketsFile&) const = default;
};
base::Result<BucketsFile> parse_buckets_file(std::string_view text, const std::string& file);
std::string to_buckets_json(const BucketsFile& buckets);

base::Result<CommProfile> parse_comm_file(std::string_view text, const std::string& file);
std::string to_comm_json(const CommProfile& comm);
/// The same as a value, for whoever puts it into something larger.
base::Json comm_json(const CommProfile& comm);

base::Result<LayerGraph> parse_layers_file(std::string_view text, const std::string& file);
std::string to_layers_json(const LayerGraph& graph);

}  // namespace yoke::profile
