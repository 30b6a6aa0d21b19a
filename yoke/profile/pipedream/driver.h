// The YAML file of PipeDream's driver.py: where to run, what to run, and the training options it passes on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/base/result.h"

namespace yoke::profile::pipedream {

/// `host:device`, one worker. The position in the list is the worker's rank.
struct Machine {
  std::string host;
  int device = 0;
  bool operator==(const Machine&) const = default;
};

/// Absent optional keys stay absent; PipeDream's own defaults apply to them.
struct Driver {
  std::string log_directory;
  std::string module;  // of the generated model, in Python's dotted form
  std::string data_dir;
  std::string container;
  std::vector<Machine> machines;  // at least one, each once
  std::string model_type;         // image_classification or translation
  std::string distributed_backend;

  std::optional<std::string> config_file;  // the partition config
  std::optional<std::int64_t> batch_size;  // of one worker
  std::optional<double> learning_rate;
  std::optional<std::string> learning_rate_policy;
  std::optional<double> weight_decay;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> print_frequency;
  std::optional<std::int64_t> verbose_frequency;
  std::optional<bool> no_input_pipelining;
  std::optional<bool> lr_warmup;
  std::optional<bool> synthetic_data;
  std::optional<bool> recompute;
  std::optional<bool> macrobatch;

  bool operator==(const Driver&) const = default;
};

struct ImportedDriver {
  Driver driver;
  std::vector<std::string> ignored;  // keys that nothing uses, one line each
};

base::Result<ImportedDriver> parse_driver(std::string_view text, const std::string& file);
std::string to_driver_yaml(const Driver& driver);

}  // namespace yoke::profile::pipedream
