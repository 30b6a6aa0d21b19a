#include "yoke/engine/checkpoint/manifest.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <set>

#include "yoke/base/document.h"
#include "yoke/base/json.h"
#include "yoke/base/sha256.h"
#include "yoke/base/text.h"

namespace yoke::engine {
namespace {

using base::Json;
using base::kNotNegative;
using base::View;

const std::string kFormat = "yoke-checkpoint";
constexpr int kVersion = 1;
constexpr std::size_t kSumDigits = 64;
const std::vector<std::string> kHolds{"weights", "optimizer"};  // as ManifestFile::Holds

/// The end of the file, in place of the brace that closed `body`.
std::string seal_of(std::string_view body) {
  return fmt::format(",\n  \"sha256\": \"{}\"\n}}\n", base::sha256(body));
}

std::string read_sum(View view) {
  std::string text = view.text();
  if (text.size() != kSumDigits || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    view.fail(fmt::format("found {}, expected a SHA-256 of {} hexadecimal digits", base::quote(text), kSumDigits));
  }
  return text;
}

/// All 64 bits, which many readers of JSON would not keep of a number: it is written as a text.
std::uint64_t read_seed(View view) {
  const std::string text = view.text();
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size()) {
    view.fail(fmt::format("found {}, expected a whole number below 2^64 in quotes", base::quote(text)));
  }
  return seed;
}

CheckpointMeta read_meta(View root) {
  CheckpointMeta meta;
  meta.model = root.field("model").text();
  View cursor = root.field("cursor");
  meta.cursor.epoch = static_cast<std::uint32_t>(
      cursor.field("epoch").integer({.least = 0, .most = std::numeric_limits<std::uint32_t>::max()}));
  meta.cursor.consumed = cursor.field("consumed").integer(kNotNegative);
  meta.cursor.step = cursor.field("step").integer(kNotNegative);
  cursor.done();
  meta.seed = read_seed(root.field("seed"));
  meta.updates = root.field("updates").integer(kNotNegative);
  // JSON has no word for what is not finite: null.
  meta.train_loss = root.number_or("train_loss", std::numeric_limits<double>::quiet_NaN());
  for (auto& change : root.field("batches").items()) {
    meta.batches.push_back({.step = change.field("step").integer(kNotNegative),
                            .gbs = change.field("gbs").integer(kNotNegative),
                            .lbs = change.field("lbs").integer(kNotNegative)});
    change.done();
  }
  if (auto scale = root.find("loss_scale")) {
    meta.loss_scale = LossScaleState{.factor = scale->field("factor").number(base::kPositive),
                                     .good_steps = scale->field("good_steps").integer(kNotNegative)};
    scale->done();
  }
  return meta;
}

ManifestFile read_file(View view) {
  ManifestFile file;
  View name = view.field("name");
  file.name = name.text();
  // A manifest must not make us read elsewhere.
  if (!base::is_plain_name(file.name)) {
    name.fail(fmt::format("found {}, expected the name of a file beside the manifest", base::quote(file.name)));
  }
  file.holds = static_cast<ManifestFile::Holds>(view.field("holds").one_of(kHolds));
  file.sums.bytes = view.field("bytes").integer(kNotNegative);
  file.sums.header = read_sum(view.field("header_sha256"));
  for (auto& [tensor, sum] : view.field("tensors_sha256").entries()) {
    file.sums.tensors.emplace_back(tensor, read_sum(sum));
  }
  view.done();
  return file;
}

}  // namespace

std::string to_json(const Manifest& manifest) {
  const CheckpointMeta& meta = manifest.meta;
  Json batches = Json::array();
  for (const auto& change : meta.batches) {
    batches.push_back({{"step", change.step}, {"gbs", change.gbs}, {"lbs", change.lbs}});
  }
  Json files = Json::array();
  for (const auto& file : manifest.files) {
    Json tensors = Json::object();
    for (const auto& [tensor, sum] : file.sums.tensors) tensors[tensor] = sum;
    files.push_back({{"name", file.name},
                     {"holds", kHolds[static_cast<std::size_t>(file.holds)]},
                     {"bytes", file.sums.bytes},
                     {"header_sha256", file.sums.header},
                     {"tensors_sha256", tensors}});
  }
  Json json{
      {"format", kFormat},
      {"version", kVersion},
      {"model", meta.model},
      {"cursor", Json{{"epoch", meta.cursor.epoch}, {"consumed", meta.cursor.consumed}, {"step", meta.cursor.step}}},
      {"seed", std::to_string(meta.seed)},
      {"updates", meta.updates},
      {"train_loss", meta.train_loss},
      {"batches", batches}};
  if (meta.loss_scale) {
    json["loss_scale"] = {{"factor", meta.loss_scale->factor}, {"good_steps", meta.loss_scale->good_steps}};
  }
  json["files"] = files;
  std::string text = json.dump(2);
  text.resize(text.size() - std::string_view("\n}").size());
  return text + seal_of(text);
}

base::Status check_seal(std::string_view text, const std::string& file) {
  const std::size_t seal_size = seal_of("").size();
  if (text.size() > seal_size) {
    const std::string_view body = text.substr(0, text.size() - seal_size);
    if (text.substr(body.size()) == seal_of(body)) return {};
  }
  return base::input_error("damaged: its own checksum, `sha256` at its end, does not fit; was it cut short or edited?",
                           {.file = file});
}

base::Result<Manifest> parse_manifest(std::string_view text, const std::string& file) {
  YOKE_TRY(const base::Document document, base::parse_json(text, file));
  base::Reader reader(document);
  View root = reader.root();
  base::expect_format(root, kFormat, kVersion);
  Manifest manifest;
  manifest.meta = read_meta(root);
  std::set<std::string> names;
  for (auto& view : root.field("files").items()) {
    manifest.files.push_back(read_file(view));
    if (!names.insert(manifest.files.back().name).second) view.fail("found a file twice");
  }
  read_sum(root.field("sha256"));
  root.done();
  if (!reader.ok()) return reader.error();
  return manifest;
}

}  // namespace yoke::engine
