// The quickstart profiles of IIDP and JABAS as values, for tests against their golden results.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "yoke/base/document.h"
#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/plan/cost/iidp_model.h"

namespace yoke::plan::testing {

inline std::string shared_data(const std::string& name) {
  return base::join_path(YOKE_SHARED_DATA, name);
}

inline bool has_shared_data() {
  return base::is_folder(YOKE_SHARED_DATA);
}

#define YOKE_NEEDS_SHARED_DATA() \
  if (!has_shared_data()) GTEST_SKIP() << "no reference data at " << YOKE_SHARED_DATA

inline base::Document load(const std::string& path) {
  return base::load_document(path).value();
}

/// `dataset`: "iidp" or "jabas".
inline cluster::Cluster quickstart_cluster(const std::string& dataset) {
  const base::Document document = load(shared_data(dataset + "-quickstart/cluster_info.json"));
  base::Reader reader(document);
  std::vector<cluster::Node> nodes;
  for (auto& [name, view] : reader.root().entries()) {
    cluster::Node node;
    node.name = name;
    node.type = view.field("type").text();
    node.tflops = view.field("tfplos").number();
    node.devices = static_cast<int>(view.field("number").integer());
    node.intra_bandwidth = view.field("intra_network_bandwidth").bandwidth();
    node.inter_bandwidth = view.field("inter_network_bandwidth").bandwidth();
    nodes.push_back(node);
  }
  EXPECT_TRUE(reader.ok());
  return cluster::Cluster::make(nodes).value();
}

inline profile::ProfileSet quickstart_profiles(const std::string& dataset) {
  const std::string root = shared_data(dataset + "-quickstart");
  const auto list = [](const std::string& folder) { return base::list_folder(folder).value(); };
  profile::ProfileSet set;
  std::map<std::string, profile::NodeProfile> nodes;
  const std::string compute = root + "/cluster_comp_profile_data";
  for (const auto& lbs : list(compute)) {
    for (const auto& host : list(compute + "/" + lbs)) {
      profile::NodeProfile& node = nodes[host];
      node.node = host;
      profile::LocalBatchProfile& at = node.by_lbs[std::stoi(lbs)];
      for (const auto& file : list(compute + "/" + lbs + "/" + host)) {
        const base::Document document = load(compute + "/" + lbs + "/" + host + "/" + file);
        base::Reader reader(document);
        base::View view = reader.root();
        node.device_type = view.field("gpu_type").text();
        set.model = view.field("model").text();
        at.compute.push_back({.vsw = static_cast<int>(view.field("num_models").integer()),
                              .total_ms = view.field("total_time").number(),
                              .data_ms = view.field("data_time").number(),
                              .forward_ms = view.field("fwd_time").number(),
                              .backward_ms = view.field("bwd_time").number(),
                              .update_ms = view.field("update_time").number(),
                              .copy_ms = view.field("copy_time").number(),
                              .bn_sync_ms = view.number_or("bn_sync_time", 0)});
        EXPECT_TRUE(reader.ok());
      }
      std::sort(at.compute.begin(), at.compute.end(), [](const auto& a, const auto& b) { return a.vsw < b.vsw; });
      const base::Document memory =
          load(root + "/cluster_mem_profile_data/" + lbs + "/" + host + "/max_memory_profile_info.json");
      base::Reader reader(memory);
      at.max_vsw = static_cast<int>(reader.root().field("max_num_models").integer());
    }
  }
  for (auto& [host, node] : nodes) set.nodes.push_back(node);
  const auto points = [&](const std::string& name) {
    std::vector<profile::CommPoint> result;
    const std::string text = base::read_file(root + "/comm_profile_data/" + name).value();
    for (const auto line : base::split(text, "\n")) {
      const auto parts = base::split(base::trim(line), ",");
      if (parts.size() != 2) continue;
      result.push_back(
          {base::parse_number(base::trim(parts[0])).value(), base::parse_number(base::trim(parts[1])).value()});
    }
    return result;
  };
  set.comm.intra = points("intra_comm_profile_data.txt");
  set.comm.inter = points("inter_comm_profile_data.txt");
  const base::Document buckets = load(root + "/bucket_profile_data/resnet50_bucket_size_profile.json");
  base::Reader reader(buckets);
  for (auto& item : reader.root().field("bucket_size_distribution").items()) {
    set.buckets.mebibytes.push_back(item.number());
  }
  EXPECT_TRUE(reader.ok());
  return set;
}

inline IidpModel quickstart_model(const std::string& dataset) {
  return IidpModel::make(quickstart_cluster(dataset), quickstart_profiles(dataset)).value();
}

/// The position of a node, which in these clusters is also its class.
inline int class_of(const BatchCost& cost, const std::string& node) {
  const auto& nodes = cost.cluster().nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].name == node) return cost.node_classes()[i];
  }
  ADD_FAILURE() << "no node " << node;
  return 0;
}

inline void expect_close(double actual, double expected, double relative) {
  EXPECT_LE(std::abs(actual - expected), relative * std::abs(expected)) << actual << " instead of " << expected;
}

}  // namespace yoke::plan::testing
