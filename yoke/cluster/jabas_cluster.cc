#include "yoke/cluster/jabas_cluster.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "yoke/base/document.h"
#include "yoke/base/json.h"
#include "yoke/base/text.h"

namespace yoke::cluster {
namespace {

using base::Json;
using base::Result;
using base::View;

Node read_host(const std::string& name, View view) {
  Node node{.name = name};
  node.type = view.field("type").text();
  node.devices = static_cast<int>(view.field("number").integer({.least = 1, .most = 1'000'000}));
  node.intra_bandwidth = view.field("intra_network_bandwidth").bandwidth();
  node.inter_bandwidth = view.field("inter_network_bandwidth").bandwidth();
  if (auto tflops = view.find("tfplos")) node.tflops = tflops->number(base::kPositive);
  if (auto tflops = view.find("tflops")) node.tflops = tflops->number(base::kPositive);
  return node;
}

/// A whole number without `.0`, as JABAS's own files have it.
Json number(double value) {
  constexpr double kExactIntegers = 9007199254740992.0;
  if (std::trunc(value) == value && value < kExactIntegers) return static_cast<std::int64_t>(value);
  return value;
}

}  // namespace

Result<ImportedCluster> parse_jabas_cluster(std::string_view text, const std::string& file) {
  YOKE_TRY(const base::Document document, base::parse_json(text, file));
  base::Reader reader(document);
  std::vector<Node> nodes;
  std::vector<std::string> ignored;
  for (auto& [name, view] : reader.root().entries()) {
    Node node = read_host(name, view);
    if (!reader.ok()) return reader.error();
    YOKE_CHECK(validate(node, view.where()));
    for (const auto& key : view.unread()) ignored.push_back(fmt::format("{}: {} of {}", file, key, name));
    nodes.push_back(std::move(node));
  }
  if (reader.ok() && nodes.empty()) reader.root().fail("found no host, expected at least one");
  if (!reader.ok()) return reader.error();
  YOKE_TRY(Cluster cluster, Cluster::make(std::move(nodes)));
  return ImportedCluster{std::move(cluster), std::move(ignored)};
}

Result<std::string> to_jabas_cluster(const Cluster& cluster) {
  Json hosts;
  for (const auto& node : cluster.nodes()) {
    if (!node.intra_bandwidth || !node.inter_bandwidth) {
      return base::input_error(fmt::format("the node has no {}, which JABAS needs; add it to the cluster file",
                                           node.intra_bandwidth ? "inter_bandwidth" : "intra_bandwidth"),
                               {.field = node.name});
    }
    Json host{{"type", node.type}};
    if (node.tflops) host["tfplos"] = number(*node.tflops);
    host["number"] = node.devices;
    host["intra_network_bandwidth"] = number(node.intra_bandwidth->bytes_per_s);
    host["inter_network_bandwidth"] = number(node.inter_bandwidth->bytes_per_s);
    hosts[node.name] = std::move(host);
  }
  return hosts.dump(2) + "\n";
}

}  // namespace yoke::cluster
