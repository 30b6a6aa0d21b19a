#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <limits>
#include <optional>
#include <utility>

#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cli/command.h"

namespace yoke::cli {
namespace {

using base::Status;
using Words = std::vector<std::string>;

// One overload for each type a value may have: the text that was typed, read the way files are read.

Status read_word(const std::string& word, std::string& value) {
  if (word.empty()) return base::input_error("found an empty text, expected a value");
  value = word;
  return {};
}

Status read_word(const std::string& word, std::int64_t& value) {
  YOKE_TRY(value, base::parse_integer(word));
  return {};
}

Status read_word(const std::string& word, int& value) {
  YOKE_TRY(const std::int64_t whole, base::parse_integer(word));
  constexpr int kMost = std::numeric_limits<int>::max();
  if (whole > kMost || whole < -kMost) {
    return base::input_error(fmt::format("found {}, expected a whole number of at most {}", base::quote(word), kMost));
  }
  value = static_cast<int>(whole);
  return {};
}

Status read_word(const std::string& word, double& value) {
  YOKE_TRY(value, base::parse_number(word));
  return {};
}

template <typename T>
Status read_word(const std::string& word, std::optional<T>& value) {
  return read_word(word, value.emplace());
}

/// What the help calls a value of this type.
template <typename T>
constexpr const char* kKind = "INTEGER";
template <>
constexpr const char* kKind<std::string> = "TEXT";
template <>
constexpr const char* kKind<double> = "NUMBER";
template <typename T>
constexpr const char* kKind<std::optional<T>> = kKind<T>;

template <typename T>
std::string default_of(const T& value) {
  return value == T() ? "" : fmt::format("{}", value);
}
template <typename T>
std::string default_of(const std::optional<T>&) {
  return "";
}

/// CLI11 hands over the words typed; `take` makes a value of them. What it finds wrong leaves the parser as a Failure,
/// because CLI11's own errors would not say what was expected.
CLI::Option* declare(CLI::App& app, const std::string& name, const std::string& help, bool required,
                     std::function<Status(const Words&)> take) {
  const auto callback = [name, take = std::move(take)](const CLI::results_t& words) {
    const Status status = take(words);
    if (!status.ok()) throw base::Failure(option_error(name, status.error().message));
    return true;
  };
  return app.add_option(name, callback, help)->required(required)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

template <typename T>
void declare_value(CLI::App& app, const std::string& name, T& value, const std::string& help, bool required) {
  const auto take = [&value](const Words& words) -> Status {
    if (words.size() != 1) {
      return base::input_error(fmt::format("found {} values, expected one; give it once", words.size()));
    }
    return read_word(words.front(), value);
  };
  CLI::Option* option = declare(app, name, help, required, take);
  option->type_name(kKind<T>)->default_str(default_of(value));
}

template <typename T>
void declare_list(CLI::App& app, const std::string& name, std::vector<T>& values, const std::string& help,
                  bool required) {
  const bool positional = !name.starts_with('-');
  const auto take = [&values, positional](const Words& words) -> Status {
    for (const auto& word : words) {
      // A positional word is a path, which may hold a comma.
      const auto items = positional ? std::vector<std::string_view>{word} : base::split(word, ",");
      for (const auto item : items) YOKE_CHECK(read_word(std::string(item), values.emplace_back()));
    }
    return {};
  };
  CLI::Option* option = declare(app, name, help, required, take);
  option->type_name(fmt::format("{}{}", kKind<T>, positional ? "" : ",..."));
  if (positional) option->expected(1, -1)->allow_extra_args();
}

}  // namespace

void Arguments::repeated(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  const auto take = [&values](const Words& words) -> Status {
    for (const auto& word : words) YOKE_CHECK(read_word(word, values.emplace_back()));
    return {};
  };
  declare(app_, name, help, false, take)->type_name(kKind<std::string>);
}

void Arguments::flag(const std::string& name, bool& value, const std::string& help) {
  app_.add_flag(name, value, help)->disable_flag_override();
}

void Arguments::hidden_flag(const std::string& name, bool& value) {
  app_.add_flag(name, value)->group("");
}

void Arguments::add(const std::string& name, std::string& value, const std::string& help, bool required) {
  declare_value(app_, name, value, help, required);
}
void Arguments::add(const std::string& name, int& value, const std::string& help, bool required) {
  declare_value(app_, name, value, help, required);
}
void Arguments::add(const std::string& name, std::int64_t& value, const std::string& help, bool required) {
  declare_value(app_, name, value, help, required);
}
void Arguments::add(const std::string& name, double& value, const std::string& help, bool required) {
  declare_value(app_, name, value, help, required);
}
void Arguments::add(const std::string& name, std::optional<int>& value, const std::string& help, bool required) {
  declare_value(app_, name, value, help, required);
}
void Arguments::add(const std::string& name, std::optional<double>& value, const std::string& help, bool required) {
  declare_value(app_, name, value, help, required);
}
void Arguments::add(const std::string& name, std::vector<std::string>& value, const std::string& help, bool required) {
  declare_list(app_, name, value, help, required);
}
void Arguments::add(const std::string& name, std::vector<int>& value, const std::string& help, bool required) {
  declare_list(app_, name, value, help, required);
}
void Arguments::add(const std::string& name, std::vector<double>& value, const std::string& help, bool required) {
  declare_list(app_, name, value, help, required);
}

CLI::App& add_group(CLI::App& parent, const std::string& name, const std::string& help) {
  CLI::App* group = parent.add_subcommand(name, help);
  group->require_subcommand(1);
  return *group;
}

void add_leaf(CLI::App& parent, const std::string& name, const std::string& help,
              const std::function<void(Arguments&)>& declare, std::function<void()> typed) {
  CLI::App* command = parent.add_subcommand(name, help);
  Arguments arguments(*command);
  declare(arguments);
  command->callback(std::move(typed));
}

void hide_command(CLI::App& parent, const std::string& name) {
  parent.get_subcommand(name)->group("");
}

}  // namespace yoke::cli
