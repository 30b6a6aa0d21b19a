#include "yoke/cluster/cluster_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "yoke/base/document.h"
#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/cluster/hostfile.h"
#include "yoke/cluster/jabas_cluster.h"

namespace yoke::cluster {
namespace {

using base::Result;
using base::View;

constexpr std::int64_t kVersion = 1;

bool is_json(std::string_view text) {
  return base::trim(text).starts_with('{');
}

Result<base::Document> parse_document(std::string_view text, const std::string& file) {
  return is_json(text) ? base::parse_json(text, file) : base::parse_yaml(text, file);
}

Node read_node(View view) {
  Node node;
  node.name = view.field("name").text();
  node.address = view.text_or("address", "");
  node.devices = static_cast<int>(view.integer_or("devices", node.devices, {.least = 1, .most = 1'000'000}));
  node.type = view.text_or("type", node.type);
  node.speed = view.number_or("speed", node.speed);
  if (auto memory = view.find("memory")) node.memory = memory->bytes();
  if (auto bandwidth = view.find("intra_bandwidth")) node.intra_bandwidth = bandwidth->bandwidth();
  if (auto bandwidth = view.find("inter_bandwidth")) node.inter_bandwidth = bandwidth->bandwidth();
  if (auto tflops = view.find("tflops")) node.tflops = tflops->number();
  if (auto price = view.find("price_per_hour")) node.price_per_hour = price->number();
  view.done();
  return node;
}

/// JABAS's file is a map from host names to maps; ours has a list of nodes.
bool looks_like_jabas(const base::Document& document) {
  const auto& entries = document.root.entries;
  return !entries.empty() && std::all_of(entries.begin(), entries.end(),
                                         [](const auto& entry) { return entry.value.kind == base::Value::Kind::kMap; });
}

/// A hostfile has no line `nodes:`, `format:` or `version:`, and a cluster file has one of them at its left edge.
bool looks_like_hostfile(std::string_view text) {
  for (const std::string_view line : base::split(text, "\n")) {
    for (const std::string_view key : {"nodes", "format", "version"}) {
      std::string_view rest = line;
      const bool quoted = rest.starts_with('"') || rest.starts_with('\'');
      if (quoted) rest.remove_prefix(1);
      if (!rest.starts_with(key)) continue;
      rest.remove_prefix(key.size());
      if (quoted && !rest.empty()) rest.remove_prefix(1);
      rest = base::trim(rest);
      // `nodes:8` is a host of a hostfile: in YAML a blank or the line's end follows the colon.
      if (rest.starts_with(':') && (rest.size() == 1 || std::isspace(static_cast<unsigned char>(rest[1])) != 0)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

Result<Cluster> parse_cluster(std::string_view text, const std::string& file) {
  YOKE_TRY(const base::Document document, parse_document(text, file));
  base::Reader reader(document);
  View root = reader.root();
  base::expect_format(root, "yoke-cluster", kVersion);
  std::vector<Node> nodes;
  std::set<std::string> names;
  for (View view : root.field("nodes").items()) {
    Node node = read_node(view);
    if (!reader.ok()) return reader.error();
    YOKE_CHECK(validate(node, view.where()));
    if (!names.insert(node.name).second) {
      view.fail(fmt::format("the node {} is given twice, expected unique names", base::quote(node.name)));
    }
    nodes.push_back(std::move(node));
  }
  root.done();
  if (reader.ok() && nodes.empty()) root.field("nodes").fail("found no node, expected at least one");
  if (!reader.ok()) return reader.error();
  return Cluster::make(std::move(nodes));
}

std::string to_cluster_yaml(const Cluster& cluster) {
  std::string text = fmt::format("format: yoke-cluster\nversion: {}\nnodes:\n", kVersion);
  for (const auto& node : cluster.nodes()) {
    const auto line = [&](std::string_view key, const std::string& value) {
      text += fmt::format("    {}: {}\n", key, value);
    };
    text += fmt::format("  - name: {}\n", base::yaml_text(node.name));
    if (!node.address.empty()) line("address", base::yaml_text(node.address));
    line("devices", std::to_string(node.devices));
    line("type", base::yaml_text(node.type));
    if (node.speed != Node{}.speed) line("speed", base::exact(node.speed));
    if (node.memory) line("memory", std::to_string(node.memory->count));
    if (node.intra_bandwidth) line("intra_bandwidth", base::exact(node.intra_bandwidth->bytes_per_s));
    if (node.inter_bandwidth) line("inter_bandwidth", base::exact(node.inter_bandwidth->bytes_per_s));
    if (node.tflops) line("tflops", base::exact(*node.tflops));
    if (node.price_per_hour) line("price_per_hour", base::exact(*node.price_per_hour));
  }
  return text;
}

Result<Cluster> load_cluster(const std::string& path) {
  YOKE_TRY(const std::string text, base::read_file(path));
  if (base::trim(text).empty()) return base::input_error("the file is empty, expected a cluster", {.file = path});
  if (path.ends_with(".json") || is_json(text)) {
    YOKE_TRY(const base::Document document, base::parse_json(text, path));
    if (!looks_like_jabas(document)) return parse_cluster(text, path);
    YOKE_TRY(ImportedCluster imported, parse_jabas_cluster(text, path));
    return std::move(imported.cluster);
  }
  const bool is_yaml = path.ends_with(".yaml") || path.ends_with(".yml") || !looks_like_hostfile(text);
  if (is_yaml) return parse_cluster(text, path);
  YOKE_TRY(ImportedCluster imported, parse_hostfile(text, path));
  return std::move(imported.cluster);
}

base::Status save_cluster(const std::string& path, const Cluster& cluster) {
  return base::publish_file(path, to_cluster_yaml(cluster));
}

}  // namespace yoke::cluster
