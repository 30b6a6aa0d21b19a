#include "yoke/profile/jabas/profile_files.h"

#include <fmt/format.h>

#include <utility>

#include "yoke/base/document.h"
#include "yoke/base/json.h"
#include "yoke/base/text.h"

namespace yoke::profile::jabas {
namespace {

using base::input_error;
using base::Json;
using base::Result;
using base::View;

/// More workers on one device than any has memory for.
constexpr base::Range kWorkers{.least = 1, .most = 1e6};

std::vector<std::string> unread_keys(const View& root, const std::string& file) {
  std::vector<std::string> lines;
  for (const auto& key : root.unread()) lines.push_back(fmt::format("{}: {}", file, base::quote(key)));
  return lines;
}

}  // namespace

Result<ComputeFile> parse_compute_file(std::string_view text, const std::string& file) {
  YOKE_TRY(const base::Document document, base::parse_json(text, file));
  base::Reader reader(document);
  View root = reader.root();
  const auto time = [&](const char* key) { return root.field(key).number(base::kNotNegative); };
  ComputeFile compute;
  compute.model = root.field("model").text();
  compute.gpu_type = root.field("gpu_type").text();
  compute.lbs = static_cast<int>(root.field("lbs").integer(base::kCount));
  compute.sample.vsw = static_cast<int>(root.field("num_models").integer(kWorkers));
  compute.sample.total_ms = time("total_time");
  compute.sample.data_ms = time("data_time");
  compute.sample.forward_ms = time("fwd_time");
  compute.sample.backward_ms = time("bwd_time");
  compute.sample.update_ms = time("update_time");
  compute.sample.copy_ms = time("copy_time");
  compute.sample.bn_sync_ms = root.number_or("bn_sync_time", 0, base::kNotNegative);
  if (reader.ok() && compute.sample.forward_ms + compute.sample.backward_ms <= 0) {
    root.field("bwd_time").fail("found fwd_time and bwd_time of 0, expected a measured time > 0");
  }
  compute.ignored = unread_keys(root, file);
  if (!reader.ok()) return reader.error();
  return compute;
}

std::string to_compute_json(const ComputeFile& compute) {
  const ComputeSample& sample = compute.sample;
  Json json{{"model", compute.model},        {"gpu_type", compute.gpu_type},   {"lbs", compute.lbs},
            {"num_models", sample.vsw},      {"total_time", sample.total_ms},  {"data_time", sample.data_ms},
            {"fwd_time", sample.forward_ms}, {"bwd_time", sample.backward_ms}, {"update_time", sample.update_ms},
            {"copy_time", sample.copy_ms}};
  if (sample.bn_sync_ms > 0) json["bn_sync_time"] = sample.bn_sync_ms;
  return json.dump() + "\n";
}

Result<MemoryFile> parse_memory_file(std::string_view text, const std::string& file) {
  YOKE_TRY(const base::Document document, base::parse_json(text, file));
  base::Reader reader(document);
  View root = reader.root();
  MemoryFile memory;
  memory.gpu_type = root.field("gpu_type").text();
  memory.lbs = static_cast<int>(root.field("lbs").integer(base::kCount));
  memory.max_vsw = static_cast<int>(root.field("max_num_models").integer({.least = 0, .most = kWorkers.most}));
  if (auto total = root.find("total_memory")) memory.total_memory = total->bytes(base::kPositive);
  memory.ignored = unread_keys(root, file);
  if (!reader.ok()) return reader.error();
  return memory;
}

std::string to_memory_json(const MemoryFile& memory) {
  Json json{{"gpu_type", memory.gpu_type}};
  if (memory.total_memory) json["total_memory"] = memory.total_memory->count;
  json["lbs"] = memory.lbs;
  json["max_num_models"] = memory.max_vsw;
  return json.dump() + "\n";
}

Result<BucketFile> parse_bucket_file(std::string_view text, const std::string& file) {
  YOKE_TRY(const base::Document document, base::parse_json(text, file));
  base::Reader reader(document);
  View root = reader.root();
  BucketFile buckets;
  buckets.model = root.field("model").text();
  View sizes = root.field("bucket_size_distribution");
  for (View size : sizes.items()) buckets.buckets.mebibytes.push_back(size.number(base::kPositive));
  if (buckets.buckets.mebibytes.empty()) sizes.fail("found no bucket, expected at least one size in MiB");
  buckets.ignored = unread_keys(root, file);
  if (!reader.ok()) return reader.error();
  return buckets;
}

std::string to_bucket_json(const BucketFile& buckets) {
  const Json json{{"model", buckets.model}, {"bucket_size_distribution", buckets.buckets.mebibytes}};
  return json.dump() + "\n";
}

Result<std::vector<CommPoint>> parse_comm_file(std::string_view text, const std::string& file) {
  std::vector<CommPoint> points;
  int number = 0;
  for (const std::string_view line : base::split(text, "\n")) {
    ++number;
    if (base::trim(line).empty()) continue;
    const auto parts = base::split(line, ",");
    const auto ideal = base::parse_number(parts.front());
    const auto measured = base::parse_number(parts.back());
    if (parts.size() != 2 || !ideal.ok() || !measured.ok() || *ideal < 0 || *measured < 0) {
      return input_error(fmt::format("found {}, expected two times in ms >= 0: `ideal,measured`", base::quote(line)),
                         {.file = file, .line = number});
    }
    points.push_back({*ideal, *measured});
  }
  if (points.empty()) return input_error("the file is empty, expected lines `ideal,measured`", {.file = file});
  return points;
}

std::string to_comm_text(const std::vector<CommPoint>& points) {
  std::string text;
  for (const auto& point : points) {
    text += fmt::format("{},{}\n", base::exact(point.ideal_ms), base::exact(point.measured_ms));
  }
  return text;
}

}  // namespace yoke::profile::jabas
