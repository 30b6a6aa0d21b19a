// Logging as an argument: a Logger is made in `cli` and handed down; the default one is silent, which is what tests
// and libraries want. Lines go to stderr, as text for people or as JSON for machines, with level, module and rank.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "yoke/base/result.h"

namespace yoke::base {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

Result<LogLevel> parse_log_level(std::string_view name);

struct LogOptions {
  LogLevel level = LogLevel::kInfo;  // lines below this level are dropped before they are formatted
  LogFormat format = LogFormat::kText;
  std::optional<int> rank;  // put into every line; absent outside of a distributed job
};

/// A cheap handle; copies share the sink. Any thread may log through any copy.
class Logger {
 public:
  /// Receives each finished line without its newline. Calls are serialised.
  using Sink = std::function<void(std::string_view line)>;

  /// Silent.
  Logger() = default;
  static Logger to_stderr(const LogOptions& options);
  static Logger to_sink(const LogOptions& options, Sink sink);

  /// The same logger speaking for `name`, e.g. "plan".
  Logger module(std::string name) const;
  bool enabled(LogLevel level) const;

  template <typename... Args>
  void debug(fmt::format_string<Args...> text, Args&&... args) const {
    log(LogLevel::kDebug, text, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void info(fmt::format_string<Args...> text, Args&&... args) const {
    log(LogLevel::kInfo, text, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void warning(fmt::format_string<Args...> text, Args&&... args) const {
    log(LogLevel::kWarning, text, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void error(fmt::format_string<Args...> text, Args&&... args) const {
    log(LogLevel::kError, text, std::forward<Args>(args)...);
  }

 private:
  struct Shared;
  explicit Logger(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  template <typename... Args>
  void log(LogLevel level, fmt::format_string<Args...> text, Args&&... args) const {
    if (enabled(level)) write(level, fmt::format(text, std::forward<Args>(args)...));
  }
  void write(LogLevel level, std::string_view message) const;

  std::shared_ptr<Shared> shared_;  // null: silent
  std::string module_;
};

}  // namespace yoke::base
