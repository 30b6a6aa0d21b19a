#include "yoke/profile/pipedream/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "yoke/base/document.h"
#include "yoke/base/text.h"

namespace yoke::profile::pipedream {
namespace {

using base::View;

Machine read_machine(View view) {
  const std::string text = view.text();
  const auto colon = text.rfind(':');
  const std::string host = text.substr(0, colon);
  const auto device = base::parse_integer(colon == std::string::npos ? "" : std::string_view(text).substr(colon + 1));
  if (!base::is_plain_name(host) || !device.ok() || *device < 0 || *device > 1'000'000) {
    view.fail(fmt::format("found {}, expected a machine such as `node0:2`", base::quote(text)));
    return {};
  }
  return {host, static_cast<int>(*device)};
}

std::vector<Machine> read_machines(View list) {
  std::vector<Machine> machines;
  std::set<std::pair<std::string, int>> seen;
  for (View item : list.items()) {
    machines.push_back(read_machine(item));
    const Machine& machine = machines.back();
    if (!seen.emplace(machine.host, machine.device).second) {
      item.fail(fmt::format("the machine `{}:{}` is given twice", machine.host, machine.device));
    }
  }
  if (machines.empty()) list.fail("found no machine, expected at least one");
  return machines;
}

/// YAML's single quotes: only the quote itself is doubled. Line breaks cannot be written so, and none is ever read.
std::string in_quotes(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "''" : std::string(1, c);
  return result + "'";
}

/// Texts that single quotes can hold on one line; control characters would not read back.
std::string read_text(View view) {
  std::string text = view.text();
  const bool control =
      std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (control) view.fail(fmt::format("found {}, expected one line of text", base::quote(text)));
  return text;
}

}  // namespace

base::Result<ImportedDriver> parse_driver(std::string_view text, const std::string& file) {
  YOKE_TRY(const base::Document document, base::parse_yaml(text, file));
  base::Reader reader(document);
  View root = reader.root();
  ImportedDriver imported;
  Driver& driver = imported.driver;
  driver.log_directory = read_text(root.field("log_directory"));
  driver.module = read_text(root.field("module"));
  driver.data_dir = read_text(root.field("data_dir"));
  driver.container = read_text(root.field("container"));
  driver.machines = read_machines(root.field("machines"));
  driver.model_type = read_text(root.field("model_type"));
  driver.distributed_backend = read_text(root.field("distributed_backend"));
  if (auto view = root.find("config_file")) driver.config_file = read_text(*view);
  if (auto view = root.find("batch_size")) driver.batch_size = view->integer(base::kCount);
  if (auto view = root.find("learning_rate")) driver.learning_rate = view->number(base::kNotNegative);
  if (auto view = root.find("learning_rate_policy")) driver.learning_rate_policy = read_text(*view);
  if (auto view = root.find("weight_decay")) driver.weight_decay = view->number(base::kNotNegative);
  if (auto view = root.find("epochs")) driver.epochs = view->integer(base::kCount);
  if (auto view = root.find("print_frequency")) driver.print_frequency = view->integer(base::kCount);
  if (auto view = root.find("verbose_frequency")) driver.verbose_frequency = view->integer(base::kNotNegative);
  if (auto view = root.find("no_input_pipelining")) driver.no_input_pipelining = view->boolean();
  if (auto view = root.find("lr_warmup")) driver.lr_warmup = view->boolean();
  if (auto view = root.find("synthetic_data")) driver.synthetic_data = view->boolean();
  if (auto view = root.find("recompute")) driver.recompute = view->boolean();
  if (auto view = root.find("macrobatch")) driver.macrobatch = view->boolean();
  for (const auto& key : root.unread()) imported.ignored.push_back(fmt::format("{}: {}", file, base::quote(key)));
  if (!reader.ok()) return reader.error();
  return imported;
}

std::string to_driver_yaml(const Driver& driver) {
  std::string text;
  const auto line = [&](std::string_view key, const std::string& value) {
    text += fmt::format("'{}': {}\n", key, value);
  };
  const auto optional_text = [&](std::string_view key, const std::optional<std::string>& value) {
    if (value) line(key, in_quotes(*value));
  };
  const auto optional_integer = [&](std::string_view key, std::optional<std::int64_t> value) {
    if (value) line(key, std::to_string(*value));
  };
  const auto optional_number = [&](std::string_view key, std::optional<double> value) {
    if (value) line(key, base::exact(*value));
  };
  const auto optional_flag = [&](std::string_view key, std::optional<bool> value) {
    if (value) line(key, *value ? "True" : "False");
  };
  std::string machines;
  for (const auto& machine : driver.machines) {
    if (!machines.empty()) machines += ", ";
    machines += in_quotes(fmt::format("{}:{}", machine.host, machine.device));
  }
  line("log_directory", in_quotes(driver.log_directory));
  line("module", in_quotes(driver.module));
  line("data_dir", in_quotes(driver.data_dir));
  optional_text("config_file", driver.config_file);
  line("container", in_quotes(driver.container));
  line("machines", "[" + machines + "]");
  optional_integer("batch_size", driver.batch_size);
  optional_number("learning_rate", driver.learning_rate);
  optional_text("learning_rate_policy", driver.learning_rate_policy);
  optional_number("weight_decay", driver.weight_decay);
  optional_integer("epochs", driver.epochs);
  optional_integer("print_frequency", driver.print_frequency);
  optional_integer("verbose_frequency", driver.verbose_frequency);
  optional_flag("no_input_pipelining", driver.no_input_pipelining);
  optional_flag("lr_warmup", driver.lr_warmup);
  optional_flag("synthetic_data", driver.synthetic_data);
  optional_flag("recompute", driver.recompute);
  optional_flag("macrobatch", driver.macrobatch);
  line("model_type", in_quotes(driver.model_type));
  line("distributed_backend", in_quotes(driver.distributed_backend));
  return text;
}

}  // namespace yoke::profile::pipedream
