#include "yoke/cli/run/job_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "yoke/base/files.h"
#include "yoke/base/text.h"

namespace yoke::cli {
namespace {

namespace fs = std::filesystem;

using base::Result;
using base::Status;
using base::Value;

base::Error set_error(std::string_view key, std::string message) {
  return base::input_error(std::move(message), {.field = key.empty() ? "--set" : fmt::format("--set {}", key)});
}

/// Values from settings have no line, which tells them from those of the file.
void forget_lines(Value& value) {
  value.line = 0;
  for (auto& item : value.items) forget_lines(item);
  for (auto& entry : value.entries) forget_lines(entry.value);
}

std::string absolute_path(const fs::path& folder, const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  std::error_code failure;
  const fs::path whole = fs::absolute(folder / path, failure);
  return failure ? path : whole.lexically_normal().string();
}

constexpr std::array<std::string_view, 5> kPathKeys{"model.path", "model.weights", "data.path", "parallel.plan",
                                                    "profiles"};

void make_absolute(plan::Job& job, const fs::path& folder) {
  for (std::string* path : {&job.model.path, &job.model.weights, &job.data.path, &job.parallel.plan, &job.profiles}) {
    *path = absolute_path(folder, *path);
  }
}

std::string_view key_of(std::string_view setting) {
  return setting.substr(0, setting.find('='));
}

/// Whether a fault at `field` can have come with a setting of `key`: it is at the key, below it, or (an unknown key,
/// which is reported at the map it stands in) names the key's next part.
bool comes_from(std::string_view key, const base::Error& error) {
  const std::string& field = error.where.field;
  if (field == key || field.starts_with(fmt::format("{}.", key)) || field.starts_with(fmt::format("{}[", key))) {
    return true;
  }
  const std::string before = field.empty() ? "" : field + ".";
  if (!key.starts_with(before)) return false;
  const auto rest = key.substr(before.size());
  return error.message.starts_with(fmt::format("unknown key {}", base::quote(rest.substr(0, rest.find('.')))));
}

/// A fault that has no line came with a setting: say which.
base::Error at_setting(base::Error error, const std::vector<std::string>& settings) {
  if (error.where.line != 0) return error;
  for (const auto& setting : settings) {
    if (comes_from(key_of(setting), error)) return set_error(key_of(setting), error.message);
  }
  return error;
}

}  // namespace

Status apply_setting(base::Document& document, const std::string& setting) {
  const auto equals = setting.find('=');
  const std::string_view key = key_of(setting);
  if (equals == std::string::npos || key.empty()) {
    return set_error("", fmt::format("found {}, expected key=value, e.g. optimizer.lr=0.1", base::quote(setting)));
  }
  auto parsed = base::parse_yaml(setting.substr(equals + 1), "--set");
  if (!parsed.ok()) return set_error(key, parsed.error().message);
  Value value = (*std::move(parsed)).root;
  if (std::ranges::find(kPathKeys, key) != kPathKeys.end() && value.kind == Value::Kind::kString) {
    value.text = absolute_path(fs::path(), value.text);
  }
  forget_lines(value);

  Value* at = &document.root;
  std::string path;
  for (const auto part : base::split(key, ".")) {
    if (part.empty()) return set_error(key, "found an empty part of the key, expected names between the points");
    if (at->kind == Value::Kind::kNull) *at = Value{.kind = Value::Kind::kMap};
    if (at->kind != Value::Kind::kMap) {
      return set_error(key,
                       fmt::format("found {} at `{}`, expected a map to put `{}` into", at->describe(), path, part));
    }
    path += fmt::format("{}{}", path.empty() ? "" : ".", part);
    auto entry = std::ranges::find(at->entries, part, &Value::Entry::key);
    if (entry == at->entries.end()) {
      at->entries.push_back({std::string(part), Value{}});
      entry = std::prev(at->entries.end());
    }
    at = &entry->value;
  }
  *at = std::move(value);
  return {};
}

Result<plan::Job> load_job(const std::string& path, const std::vector<std::string>& settings) {
  YOKE_TRY(base::Document document, base::load_document(path));
  for (const auto& setting : settings) YOKE_CHECK(apply_setting(document, setting));
  auto job = plan::parse_job(document);
  if (!job.ok()) return at_setting(job.error(), settings);
  plan::Job resolved = *std::move(job);
  make_absolute(resolved, base::parent_folder(path));
  return resolved;
}

std::string job_name(const std::string& path) {
  const fs::path file(absolute_path(fs::path(), path));
  const std::string stem = file.stem().string();
  const std::string folder = file.parent_path().filename().string();
  const std::string& name = stem == "job" && !folder.empty() ? folder : stem;
  return base::is_plain_name(name) ? name : "job";
}

}  // namespace yoke::cli
