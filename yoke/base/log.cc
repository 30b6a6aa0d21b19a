#include "yoke/base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <mutex>
#include <vector>

#include "yoke/base/json.h"
#include "yoke/base/text.h"

namespace yoke::base {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames{"debug", "info", "warning", "error"};

std::string_view name_of(LogLevel level) {
  return kLevelNames[static_cast<std::size_t>(level)];
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

/// Hands finished lines to a function; base_sink holds its mutex around every call.
class FunctionSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FunctionSink(Logger::Sink receiver) : receiver_(std::move(receiver)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    receiver_(std::string_view(line.data(), line.size()));
  }
  void flush_() override {}
  Logger::Sink receiver_;
};

/// Time and level come from spdlog for text; a JSON line is whole already.
std::unique_ptr<spdlog::formatter> formatter_for(LogFormat format, std::string end_of_line) {
  return std::make_unique<spdlog::pattern_formatter>(format == LogFormat::kJson ? "%v" : "%H:%M:%S.%e %^%l%$ %v",
                                                     spdlog::pattern_time_type::local, std::move(end_of_line));
}

}  // namespace

struct Logger::Shared {
  LogOptions options;
  spdlog::logger backend;

  Shared(const LogOptions& with, spdlog::sink_ptr sink) : options(with), backend("yoke", std::move(sink)) {
    backend.set_level(to_spdlog(options.level));
    backend.flush_on(spdlog::level::debug);
  }
};

Result<LogLevel> parse_log_level(std::string_view name) {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (name == kLevelNames[i]) return static_cast<LogLevel>(i);
  }
  const std::vector<std::string> names(kLevelNames.begin(), kLevelNames.end());
  return input_error(fmt::format("found log level {}, expected {}{}", quote(name), join_words(names, "or"),
                                 did_you_mean(name, names)));
}

Logger Logger::to_stderr(const LogOptions& options) {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  sink->set_formatter(formatter_for(options.format, "\n"));
  return Logger(std::make_shared<Shared>(options, std::move(sink)));
}

Logger Logger::to_sink(const LogOptions& options, Sink receiver) {
  auto sink = std::make_shared<FunctionSink>(std::move(receiver));
  sink->set_formatter(formatter_for(options.format, ""));
  return Logger(std::make_shared<Shared>(options, std::move(sink)));
}

Logger Logger::module(std::string name) const {
  Logger logger = *this;
  logger.module_ = std::move(name);
  return logger;
}

bool Logger::enabled(LogLevel level) const {
  return shared_ != nullptr && level >= shared_->options.level;
}

void Logger::write(LogLevel level, std::string_view message) const {
  const auto& options = shared_->options;
  std::string line;
  if (options.format == LogFormat::kJson) {
    using std::chrono::system_clock;
    const auto since_epoch = system_clock::now().time_since_epoch();
    Json object{
        {"time", std::chrono::duration<double>(since_epoch).count()}, {"level", name_of(level)}, {"module", module_}};
    if (options.rank) object["rank"] = *options.rank;
    object["message"] = message;
    line = object.dump();
  } else {
    std::string who = module_;
    if (options.rank) who += fmt::format("{}rank {}", who.empty() ? "" : " ", *options.rank);
    line = who.empty() ? std::string(message) : fmt::format("[{}] {}", who, message);
  }
  shared_->backend.log(to_spdlog(level), line);
}

}  // namespace yoke::base
