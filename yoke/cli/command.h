// How a command of `yoke` is made: a file per command adds a subcommand to the parser, and when that subcommand is
// typed it leaves the action to run. Only `cli` prints, reads the environment and decides on exit codes.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/json.h"
#include "yoke/base/log.h"
#include "yoke/base/result.h"

namespace CLI {
class App;
}

namespace yoke::cli {

using base::Json;

/// The exit code of a command that was asked to stop and has saved.
inline constexpr int kExitInterrupted = 130;

/// What every command is given. Lives as long as the command runs.
struct Context {
  std::ostream& out;  // results: tables for people, or one JSON object
  base::Logger log;   // everything else, on stderr
  const base::Clock& clock;
  bool json = false;         // the user asked for --json
  std::string program = {};  // this executable, for commands that start it again; empty where it is another one
  /// Set by a command whose result tells of the failure that it returns: only the exit code is left to say.
  bool reported = false;
  /// What the process ends with when the command returns no error.
  int exit_code = 0;
};

/// Runs a parsed command. An error becomes the exit code and one message.
using Action = std::function<base::Status(Context&)>;

/// An input error at an option of the command line, e.g. `--gbs`.
base::Error option_error(std::string option, std::string message);

/// An error about a field of a request, e.g. `gbs`, becomes one about the option it came from: the first of `options`
/// with that name (`--gbs`). Other errors stay as they are.
base::Error at_option(base::Error error, const std::vector<std::string>& options);

/// Writes one JSON object and a newline.
void print_json(Context& context, const Json& json);

/// Declares what a command takes. It stands between the commands and CLI11, which is heavy to compile: only
/// arguments.cc and yoke.cc include it. Names without dashes are positional; lists are separated by commas (positional
/// ones by blanks). Values are read as in files (`1e3` is a whole number, `nan` is none); an empty text is refused. A
/// value that is set beforehand is shown as the default. What is declared must outlive the parse.
class Arguments {
 public:
  explicit Arguments(CLI::App& app) : app_(app) {}

  template <typename T>
  void option(const std::string& name, T& value, const std::string& help) {
    add(name, value, help, false);
  }
  template <typename T>
  void required(const std::string& name, T& value, const std::string& help) {
    add(name, value, help, true);
  }
  /// An option that may be given again and again; its values are taken whole, commas included.
  void repeated(const std::string& name, std::vector<std::string>& values, const std::string& help);
  void flag(const std::string& name, bool& value, const std::string& help);
  /// For yoke itself, not for people: `--help` does not list it.
  void hidden_flag(const std::string& name, bool& value);

 private:
  void add(const std::string& name, std::string& value, const std::string& help, bool required);
  void add(const std::string& name, int& value, const std::string& help, bool required);
  void add(const std::string& name, std::int64_t& value, const std::string& help, bool required);
  void add(const std::string& name, double& value, const std::string& help, bool required);
  void add(const std::string& name, std::optional<int>& value, const std::string& help, bool required);
  void add(const std::string& name, std::optional<double>& value, const std::string& help, bool required);
  void add(const std::string& name, std::vector<std::string>& value, const std::string& help, bool required);
  void add(const std::string& name, std::vector<int>& value, const std::string& help, bool required);
  void add(const std::string& name, std::vector<double>& value, const std::string& help, bool required);

  CLI::App& app_;
};

/// A command that has subcommands only.
CLI::App& add_group(CLI::App& parent, const std::string& name, const std::string& help);
/// A command that runs: `declare` says what it takes, `typed` is called when it was typed and parsed.
void add_leaf(CLI::App& parent, const std::string& name, const std::string& help,
              const std::function<void(Arguments&)>& declare, std::function<void()> typed);

/// For yoke itself, not for people: `--help` does not list the command.
void hide_command(CLI::App& parent, const std::string& name);

/// Adds a command whose options are parsed into an `Options`, which `run` is given.
template <typename Options>
void add_command(CLI::App& parent, Action& chosen, const std::string& name, const std::string& help,
                 const std::function<void(Arguments&, Options&)>& declare,
                 const std::function<base::Status(const Options&, Context&)>& run) {
  const auto options = std::make_shared<Options>();
  add_leaf(
      parent, name, help, [&](Arguments& arguments) { declare(arguments, *options); },
      [&chosen, options, run] { chosen = [options, run](Context& context) { return run(*options, context); }; });
}

// One function per file of the same name.
void add_doctor(CLI::App& app, Action& chosen);
void add_explain(CLI::App& app, Action& chosen);
void add_import(CLI::App& app, Action& chosen);
void add_plan(CLI::App& app, Action& chosen);
void add_profile(CLI::App& app, Action& chosen);
void add_run(CLI::App& app, Action& chosen);
void add_simulate(CLI::App& app, Action& chosen);
void add_train(CLI::App& app, Action& chosen);

/// All of them. In a file of its own (commands.cc), so that a test program can do with a few.
void add_commands(CLI::App& app, Action& chosen);

/// Parses, runs and reports; returns the process's exit code. `program` is Context::program.
int run_yoke(int argc, const char* const* argv, std::ostream& out, std::ostream& err, const std::string& program = {});

}  // namespace yoke::cli
