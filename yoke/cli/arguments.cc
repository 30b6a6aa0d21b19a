#include <CLI/CLI.hpp>
#include <utility>

#include "yoke/cli/command.h"

namespace yoke::cli {
namespace {

template <typename T>
CLI::Option* declare(CLI::App& app, const std::string& name, T& value, const std::string& help, bool required) {
  CLI::Option* option = app.add_option(name, value, help);
  option->required(required);
  return option;
}

template <typename T>
void declare_scalar(CLI::App& app, const std::string& name, T& value, const std::string& help, bool required) {
  CLI::Option* option = declare(app, name, value, help, required);
  if (value != T()) option->capture_default_str();
}

template <typename T>
void declare_list(CLI::App& app, const std::string& name, T& value, const std::string& help, bool required) {
  CLI::Option* option = declare(app, name, value, help, required);
  if (name.starts_with('-')) option->delimiter(',')->allow_extra_args(false);
}

}  // namespace

void Arguments::flag(const std::string& name, bool& value, const std::string& help) {
  app_.add_flag(name, value, help);
}

void Arguments::add(const std::string& name, std::string& value, const std::string& help, bool required) {
  declare_scalar(app_, name, value, help, required);
}
void Arguments::add(const std::string& name, int& value, const std::string& help, bool required) {
  declare_scalar(app_, name, value, help, required);
}
void Arguments::add(const std::string& name, std::int64_t& value, const std::string& help, bool required) {
  declare_scalar(app_, name, value, help, required);
}
void Arguments::add(const std::string& name, double& value, const std::string& help, bool required) {
  declare_scalar(app_, name, value, help, required);
}
void Arguments::add(const std::string& name, std::optional<int>& value, const std::string& help, bool required) {
  declare(app_, name, value, help, required);
}
void Arguments::add(const std::string& name, std::optional<double>& value, const std::string& help, bool required) {
  declare(app_, name, value, help, required);
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

}  // namespace yoke::cli
