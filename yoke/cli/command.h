// How a command of `yoke` is made: a file per command adds a subcommand to the parser, and when that subcommand is
// typed it leaves the action to run. Only `cli` prints, reads the environment and decides on exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <iosfwd>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "yoke/base/clock.h"
#include "yoke/base/log.h"
#include "yoke/base/result.h"

namespace yoke::cli {

/// What every command is given. Lives as long as the command runs.
struct Context {
  std::ostream& out;  // results: tables for people, or one JSON object
  base::Logger log;   // everything else, on stderr
  const base::Clock& clock;
  bool json = false;  // the user asked for --json
};

/// Runs a parsed command. An error becomes the exit code and one message.
using Action = std::function<base::Status(Context&)>;

/// Keeps key order as written: scripts do not care, people do.
using Json = nlohmann::ordered_json;

/// Writes one JSON object and a newline.
void print_json(Context& context, const Json& json);

/// Adds a subcommand whose options are parsed into an `Options`, which `run` is given.
template <typename Options>
CLI::App* add_command(CLI::App& parent, Action& chosen, const std::string& name, const std::string& help,
                      const std::function<void(CLI::App&, Options&)>& declare,
                      const std::function<base::Status(const Options&, Context&)>& run) {
  CLI::App* command = parent.add_subcommand(name, help);
  auto options = std::make_shared<Options>();
  declare(*command, *options);
  command->callback(
      [&chosen, options, run] { chosen = [options, run](Context& context) { return run(*options, context); }; });
  return command;
}

// One function per file of the same name.
void add_doctor(CLI::App& app, Action& chosen);
void add_explain(CLI::App& app, Action& chosen);
void add_import(CLI::App& app, Action& chosen);
void add_plan(CLI::App& app, Action& chosen);
void add_profile(CLI::App& app, Action& chosen);

/// Parses, runs and reports; returns the process's exit code.
int run_yoke(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace yoke::cli
