// The text of the files in a profile folder.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "yoke/base/document.h"
#include "yoke/base/json.h"
#include "yoke/base/text.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::profile {
namespace {

using base::Json;
using base::kCount;
using base::kNotNegative;
using base::kPositive;
using base::Result;
using base::View;

constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kNodeVersion = 3;  // 2 added setup, memory, round_ms and confidence; 3 confidence.visits
constexpr const char* kNodeFormat = "yoke-node-profile";
constexpr const char* kBucketsFormat = "yoke-buckets";
constexpr const char* kCommFormat = "yoke-comm";
constexpr const char* kLayersFormat = "yoke-layers";
/// Bytes of one op: whole, and exact as a double.
constexpr base::Range kSize{.least = 0, .most = 9e15};

/// Comm files whose links tell the processor's part are of version 3, those with bandwidths, links or bytes of version
/// 2; others are written as version 1, which older readers know.
constexpr std::int64_t kCommVersion = 3;
/// Layer files with a confidence are of version 3, those with a local batch size or update times of version 2; others
/// are written as version 1 likewise.
constexpr std::int64_t kLayersVersion = 3;

Json head(const char* format, std::int64_t version = kVersion) {
  return {{"format", format}, {"version", version}};
}

/// Measured unless the file says that it is an estimate.
Source read_source(View root) {
  auto source = root.find("source");
  if (!source) return Source::kMeasured;
  return source->one_of({"measured", "estimate"}) == 1 ? Source::kEstimate : Source::kMeasured;
}

void put_source(Json& json, Source source) {
  if (source != Source::kMeasured) json["source"] = to_string(source);
}

std::string finished(const Json& json) {
  return json.dump(1) + "\n";
}

std::int64_t read_bytes(View view, const std::string& key) {
  return view.field(key).bytes().count;
}

MemoryParts read_memory(View view) {
  MemoryParts parts{.weights = read_bytes(view, "weights"),
                    .gradients = read_bytes(view, "gradients"),
                    .optimizer = read_bytes(view, "optimizer"),
                    .buffers = read_bytes(view, "buffers"),
                    .worker = read_bytes(view, "worker"),
                    .passes = read_bytes(view, "passes"),
                    .building = read_bytes(view, "building"),
                    .verified = view.boolean_or("verified", false),
                    .capped = view.boolean_or("capped", false)};
  view.done();
  return parts;
}

Json to_json(const MemoryParts& parts) {
  return {{"weights", parts.weights},   {"gradients", parts.gradients}, {"optimizer", parts.optimizer},
          {"buffers", parts.buffers},   {"worker", parts.worker},       {"passes", parts.passes},
          {"building", parts.building}, {"verified", parts.verified},   {"capped", parts.capped}};
}

Confidence read_confidence(View view) {
  Confidence confidence;
  confidence.spread = view.field("spread").number(kNotNegative);
  confidence.count = static_cast<int>(view.field("count").integer(kCount));
  confidence.noisy = view.boolean_or("noisy", false);
  if (auto visits = view.find("visits")) confidence.visits = static_cast<int>(visits->integer(kCount));
  view.done();
  return confidence;
}

Json to_json(const Confidence& confidence) {
  Json json{{"spread", confidence.spread}, {"count", confidence.count}, {"noisy", confidence.noisy}};
  if (confidence.visits) json["visits"] = *confidence.visits;
  return json;
}

ComputeSample read_sample(View view) {
  ComputeSample sample;
  sample.vsw = static_cast<int>(view.field("vsw").integer(kCount));
  sample.total_ms = view.field("total_ms").number(kNotNegative);
  sample.data_ms = view.field("data_ms").number(kNotNegative);
  sample.forward_ms = view.field("forward_ms").number(kNotNegative);
  sample.backward_ms = view.field("backward_ms").number(kNotNegative);
  sample.update_ms = view.field("update_ms").number(kNotNegative);
  sample.copy_ms = view.field("copy_ms").number(kNotNegative);
  sample.bn_sync_ms = view.field("bn_sync_ms").number(kNotNegative);
  if (auto round = view.find("round_ms")) sample.round_ms = round->number(kNotNegative);
  if (auto confidence = view.find("confidence")) sample.confidence = read_confidence(*confidence);
  view.done();
  return sample;
}

LocalBatchProfile read_local_batch(View view) {
  LocalBatchProfile measured;
  if (auto max_vsw = view.find("max_vsw"))
    measured.max_vsw = static_cast<int>(max_vsw->integer({.least = 0, .most = kCount.most}));
  if (auto memory = view.find("total_memory")) measured.total_memory = memory->bytes(kPositive);
  if (auto parts = view.find("memory")) measured.memory = read_memory(*parts);
  for (View sample : view.field("compute").items()) {
    measured.compute.push_back(read_sample(sample));
    const std::size_t count = measured.compute.size();
    if (count > 1 && measured.compute[count - 1].vsw <= measured.compute[count - 2].vsw) {
      sample.fail(fmt::format("found vsw {} after {}, expected each once, ascending", measured.compute[count - 1].vsw,
                              measured.compute[count - 2].vsw));
    }
  }
  view.done();
  return measured;
}

Json to_json(const ComputeSample& sample) {
  Json json{{"vsw", sample.vsw},
            {"total_ms", sample.total_ms},
            {"data_ms", sample.data_ms},
            {"forward_ms", sample.forward_ms},
            {"backward_ms", sample.backward_ms},
            {"update_ms", sample.update_ms},
            {"copy_ms", sample.copy_ms},
            {"bn_sync_ms", sample.bn_sync_ms}};
  if (sample.round_ms) json["round_ms"] = *sample.round_ms;
  if (sample.confidence) json["confidence"] = to_json(*sample.confidence);
  return json;
}

Json to_json(int lbs, const LocalBatchProfile& measured) {
  Json json{{"lbs", lbs}};
  if (measured.max_vsw) json["max_vsw"] = *measured.max_vsw;
  if (measured.total_memory) json["total_memory"] = measured.total_memory->count;
  if (measured.memory) json["memory"] = to_json(*measured.memory);
  json["compute"] = Json::array();
  for (const auto& sample : measured.compute) json["compute"].push_back(to_json(sample));
  return json;
}

std::vector<CommPoint> read_points(View list) {
  std::vector<CommPoint> points;
  for (View view : list.items()) {
    CommPoint point{view.field("ideal_ms").number(kNotNegative), view.field("measured_ms").number(kNotNegative)};
    if (auto bytes = view.find("bytes")) point.bytes = bytes->integer(kSize);
    if (auto spread = view.find("spread_ms")) point.spread_ms = spread->number(kNotNegative);
    view.done();
    points.push_back(point);
  }
  return points;
}

Json to_json(const std::vector<CommPoint>& points) {
  Json json = Json::array();
  for (const auto& point : points) {
    Json entry{{"ideal_ms", point.ideal_ms}, {"measured_ms", point.measured_ms}};
    if (point.bytes) entry["bytes"] = *point.bytes;
    if (point.spread_ms) entry["spread_ms"] = *point.spread_ms;
    json.push_back(std::move(entry));
  }
  return json;
}

const std::vector<std::string> kScopes{"intra", "inter"};
const std::vector<std::string> kOps{"all_reduce", "message"};

LinkProfile read_link(View view) {
  LinkProfile link;
  link.scope = static_cast<LinkScope>(view.field("scope").one_of(kScopes));
  link.op = static_cast<LinkOp>(view.field("op").one_of(kOps));
  link.backend = view.field("backend").text();
  link.ranks = static_cast<int>(view.field("ranks").integer(kCount));
  if (auto between = view.find("between")) {
    for (View host : between->items()) link.between.push_back(host.text());
  }
  link.latency_ms = view.field("latency_ms").number(kNotNegative);
  link.bandwidth.bytes_per_s = view.field("bytes_per_second").number(kPositive);
  link.error = view.field("error").number(kNotNegative);
  if (auto part = view.find("processor_seconds_per_byte")) link.processor_seconds_per_byte = part->number(kNotNegative);
  for (View point : view.field("points").items()) {
    link.points.push_back({.bytes = point.field("bytes").integer(kSize),
                           .median_ms = point.field("median_ms").number(kNotNegative),
                           .spread_ms = point.field("spread_ms").number(kNotNegative),
                           .repeats = static_cast<int>(point.field("repeats").integer(kCount))});
    point.done();
  }
  view.done();
  return link;
}

Json to_json(const LinkProfile& link) {
  Json json{{"scope", kScopes.at(static_cast<std::size_t>(link.scope))},
            {"op", kOps.at(static_cast<std::size_t>(link.op))},
            {"backend", link.backend},
            {"ranks", link.ranks}};
  if (!link.between.empty()) json["between"] = link.between;
  json["latency_ms"] = link.latency_ms;
  json["bytes_per_second"] = link.bandwidth.bytes_per_s;
  json["error"] = link.error;
  if (link.processor_seconds_per_byte) json["processor_seconds_per_byte"] = *link.processor_seconds_per_byte;
  json["points"] = Json::array();
  for (const auto& point : link.points) {
    json["points"].push_back({{"bytes", point.bytes},
                              {"median_ms", point.median_ms},
                              {"spread_ms", point.spread_ms},
                              {"repeats", point.repeats}});
  }
  return json;
}

/// The oldest version that has keys for what the file holds.
std::int64_t version_of(const CommProfile& comm) {
  const auto has_processor = [](const LinkProfile& link) { return link.processor_seconds_per_byte.has_value(); };
  if (std::ranges::any_of(comm.links, has_processor)) return kCommVersion;
  const auto rich = [](const CommPoint& point) { return point.bytes || point.spread_ms; };
  const bool second = comm.source != Source::kMeasured || comm.intra_bandwidth || comm.inter_bandwidth ||
                      !comm.links.empty() || std::ranges::any_of(comm.intra, rich) ||
                      std::ranges::any_of(comm.inter, rich);
  return second ? 2 : kVersion;
}

Layer read_layer(View view) {
  Layer layer;
  layer.id = view.field("id").text();
  layer.description = view.text_or("description", "");
  layer.forward_ms = view.field("forward_ms").number(kNotNegative);
  layer.backward_ms = view.field("backward_ms").number(kNotNegative);
  layer.output_bytes.clear();
  for (View bytes : view.field("output_bytes").items()) layer.output_bytes.push_back(bytes.number(kNotNegative));
  layer.parameter_bytes = view.field("parameter_bytes").number(kNotNegative);
  if (auto update = view.find("update_ms")) layer.update_ms = update->number(kNotNegative);
  if (auto stage = view.find("stage")) {
    layer.stage = static_cast<int>(stage->integer({.least = 0, .most = kCount.most}));
  }
  view.done();
  return layer;
}

}  // namespace

Result<NodeFile> parse_node_file(std::string_view text, const std::string& file) {
  YOKE_TRY(const base::Document document, base::parse_json(text, file));
  base::Reader reader(document);
  View root = reader.root();
  base::expect_format(root, kNodeFormat, kNodeVersion);
  NodeFile node;
  node.model = root.field("model").text();
  node.profile.node = root.field("node").text();
  node.profile.device_type = root.field("device_type").text();
  node.profile.source = read_source(root);
  node.profile.setup = root.text_or("setup", "");
  for (View view : root.field("local_batches").items()) {
    const int lbs = static_cast<int>(view.field("lbs").integer(kCount));
    LocalBatchProfile measured = read_local_batch(view);
    if (!node.profile.by_lbs.emplace(lbs, std::move(measured)).second) {
      view.fail(fmt::format("the local batch size {} is given twice", lbs));
    }
  }
  root.done();
  if (!reader.ok()) return reader.error();
  YOKE_CHECK(validate(node.profile, {.file = file}));
  return node;
}

std::string to_node_json(const NodeFile& node) {
  Json json = head(kNodeFormat, kNodeVersion);
  json["model"] = node.model;
  json["node"] = node.profile.node;
  json["device_type"] = node.profile.device_type;
  put_source(json, node.profile.source);
  if (!node.profile.setup.empty()) json["setup"] = node.profile.setup;
  json["local_batches"] = Json::array();
  for (const auto& [lbs, measured] : node.profile.by_lbs) json["local_batches"].push_back(to_json(lbs, measured));
  return finished(json);
}

Result<BucketsFile> parse_buckets_file(std::string_view text, const std::string& file) {
  YOKE_TRY(const base::Document document, base::parse_json(text, file));
  base::Reader reader(document);
  View root = reader.root();
  base::expect_format(root, kBucketsFormat, kVersion);
  BucketsFile buckets;
  buckets.model = root.field("model").text();
  View sizes = root.field("mebibytes");
  for (View size : sizes.items()) buckets.buckets.mebibytes.push_back(size.number(kPositive));
  if (buckets.buckets.mebibytes.empty()) sizes.fail("found no bucket, expected at least one size in MiB");
  root.done();
  if (!reader.ok()) return reader.error();
  return buckets;
}

std::string to_buckets_json(const BucketsFile& buckets) {
  Json json = head(kBucketsFormat);
  json["model"] = buckets.model;
  json["mebibytes"] = buckets.buckets.mebibytes;
  return finished(json);
}

Result<CommProfile> parse_comm_file(std::string_view text, const std::string& file) {
  YOKE_TRY(const base::Document document, base::parse_json(text, file));
  base::Reader reader(document);
  View root = reader.root();
  base::expect_format(root, kCommFormat, kCommVersion);
  CommProfile comm;
  comm.source = read_source(root);
  comm.intra = read_points(root.field("intra"));
  comm.inter = read_points(root.field("inter"));
  if (auto bandwidth = root.find("intra_bandwidth")) comm.intra_bandwidth = bandwidth->bandwidth(kPositive);
  if (auto bandwidth = root.find("inter_bandwidth")) comm.inter_bandwidth = bandwidth->bandwidth(kPositive);
  if (auto links = root.find("links")) {
    for (View link : links->items()) comm.links.push_back(read_link(link));
  }
  root.done();
  if (!reader.ok()) return reader.error();
  YOKE_CHECK(validate(comm, {.file = file}));
  return comm;
}

Json comm_json(const CommProfile& comm) {
  Json json = head(kCommFormat, version_of(comm));
  put_source(json, comm.source);
  json["intra"] = to_json(comm.intra);
  json["inter"] = to_json(comm.inter);
  if (comm.intra_bandwidth) json["intra_bandwidth"] = comm.intra_bandwidth->bytes_per_s;
  if (comm.inter_bandwidth) json["inter_bandwidth"] = comm.inter_bandwidth->bytes_per_s;
  if (!comm.links.empty()) json["links"] = Json::array();
  for (const auto& link : comm.links) json["links"].push_back(to_json(link));
  return json;
}

std::string to_comm_json(const CommProfile& comm) {
  return finished(comm_json(comm));
}

Result<LayerGraph> parse_layers_file(std::string_view text, const std::string& file) {
  YOKE_TRY(const base::Document document, base::parse_json(text, file));
  base::Reader reader(document);
  View root = reader.root();
  base::expect_format(root, kLayersFormat, kLayersVersion);
  const Source source = read_source(root);
  std::optional<int> lbs;
  if (auto samples = root.find("lbs")) lbs = static_cast<int>(samples->integer(kCount));
  std::optional<Confidence> confidence;
  if (auto view = root.find("confidence")) confidence = read_confidence(*view);
  std::vector<Layer> layers;
  std::unordered_map<std::string, int> indices;
  for (View view : root.field("layers").items()) {
    Layer layer = read_layer(view);
    if (!indices.emplace(layer.id, static_cast<int>(layers.size())).second) {
      view.fail(fmt::format("the layer {} is given twice, expected unique ids", base::quote(layer.id)));
    }
    layers.push_back(std::move(layer));
  }
  const auto index_of = [&](View view) {
    const std::string id = view.text();
    const auto found = indices.find(id);
    if (found == indices.end())
      view.fail(fmt::format("there is no layer {}, expected an id of `layers`", base::quote(id)));
    return found == indices.end() ? 0 : found->second;
  };
  std::vector<Edge> edges;
  for (View view : root.field("edges").items()) {
    const auto ends = view.items();
    if (ends.size() != 2) {
      view.fail("found no pair, expected two layer ids: [from, to]");
      break;
    }
    edges.push_back({index_of(ends[0]), index_of(ends[1])});
  }
  root.done();
  if (!reader.ok()) return reader.error();
  YOKE_TRY(const LayerGraph graph, LayerGraph::make(std::move(layers), std::move(edges), {.file = file}));
  return graph.with_source(source).with_lbs(lbs).with_confidence(confidence);
}

std::string to_layers_json(const LayerGraph& graph) {
  const bool rich =
      graph.lbs() || std::ranges::any_of(graph.layers(), [](const Layer& layer) { return layer.update_ms > 0; });
  Json json = head(kLayersFormat, graph.confidence() ? kLayersVersion : rich ? 2 : kVersion);
  put_source(json, graph.source());
  if (graph.lbs()) json["lbs"] = *graph.lbs();
  if (graph.confidence()) json["confidence"] = to_json(*graph.confidence());
  json["layers"] = Json::array();
  for (const auto& layer : graph.layers()) {
    Json entry{{"id", layer.id},
               {"description", layer.description},
               {"forward_ms", layer.forward_ms},
               {"backward_ms", layer.backward_ms},
               {"output_bytes", layer.output_bytes},
               {"parameter_bytes", layer.parameter_bytes}};
    if (layer.update_ms > 0) entry["update_ms"] = layer.update_ms;
    if (layer.stage) entry["stage"] = *layer.stage;
    json["layers"].push_back(std::move(entry));
  }
  json["edges"] = Json::array();
  for (const auto& edge : graph.edges()) {
    const auto id = [&](int layer) { return graph.layers()[static_cast<std::size_t>(layer)].id; };
    json["edges"].push_back(Json(std::vector<std::string>{id(edge.from), id(edge.to)}));
  }
  return finished(json);
}

}  // namespace yoke::profile
