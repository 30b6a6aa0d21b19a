#include "yoke/profile/jabas/initial_config.h"

#include <fmt/format.h>

#include "yoke/base/document.h"
#include "yoke/base/json.h"
#include "yoke/base/text.h"

namespace yoke::profile::jabas {

base::Result<InitialConfig> parse_initial_config(std::string_view text, const std::string& file) {
  YOKE_TRY(const base::Document document, base::parse_json(text, file));
  base::Reader reader(document);
  InitialConfig config;
  for (auto& [key, view] : reader.root().entries()) {
    const auto worker = base::parse_integer(key);
    const bool is_id = worker.ok() && *worker >= 0 && *worker < 1'000'000;
    const int id = is_id ? static_cast<int>(*worker) : 0;
    if (!is_id) {
      view.fail(fmt::format("found the worker {}, expected a whole number >= 0", base::quote(key)));
    } else if (config.contains(id)) {
      view.fail(fmt::format("the worker {} is given twice", id));
    }
    config[id] = static_cast<int>(view.integer({.least = 1, .most = 1e6}));
  }
  if (reader.ok() && config.empty()) reader.root().fail("found no worker, expected at least one");
  if (!reader.ok()) return reader.error();
  return config;
}

std::string to_initial_config_json(const InitialConfig& config) {
  base::Json json;
  for (const auto& [worker, gpus] : config) json[std::to_string(worker)] = gpus;
  return json.dump(4) + "\n";
}

}  // namespace yoke::profile::jabas
