#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <ostream>
#include <string_view>
#include <vector>

#include "yoke/base/text.h"
#include "yoke/cli/command.h"

namespace yoke::cli {
namespace {

using base::Error;
using base::ErrorKind;

struct Globals {
  std::string log_level = "info";
  std::string log_format = "text";
};

/// One message, in the form the user asked for. Returns the exit code.
int report(const Error& error, bool json, std::ostream& out, std::ostream& err) {
  if (json) {
    const Json object{
        {"error",
         {{"kind", base::to_string(error.kind)}, {"message", error.message}, {"where", error.where.to_string()}}}};
    out << object.dump() << "\n";
  } else {
    err << "yoke: error: " << error.to_string() << "\n";
    if (error.kind == ErrorKind::kInternal) err << "yoke: this is a bug; please report it with the command you typed\n";
  }
  out.flush();
  return base::exit_code(error.kind);
}

/// Every name that could have been meant at the place where parsing stopped.
std::vector<std::string> known_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const auto* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

/// The innermost subcommand typed.
const CLI::App& innermost(const CLI::App& app) {
  const CLI::App* at = &app;
  for (auto used = at->get_subcommands(); !used.empty(); used = at->get_subcommands()) at = used.front();
  return *at;
}

/// What the parser refused, in our words.
Error usage_error(const CLI::App& app, const CLI::ParseError& fault) {
  const CLI::App& at = innermost(app);
  std::string command = "yoke";
  for (const CLI::App* used = &app; !used->get_subcommands().empty();) {
    used = used->get_subcommands().front();
    command += " " + used->get_name();
  }
  base::Where where;
  std::string message = fault.what();
  if (const auto extras = app.remaining(true); !extras.empty()) {
    auto names = known_names(at);
    for (const auto& name : known_names(app)) names.push_back(name);
    message =
        fmt::format("unknown argument {}{}", base::quote(extras.front()), base::did_you_mean(extras.front(), names));
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&fault) != nullptr) {
    // `--gbs: 1 required INTEGER missing`, or `json was given a disallowed flag override`
    where.field = message.substr(0, message.find_first_of(": "));
    if (!where.field.starts_with('-')) where.field.insert(0, "--");
    message = message.ends_with("missing") ? "found no value, expected one" : "found a value, expected none";
  } else if (at.get_require_subcommand_min() > 0 && at.get_subcommands().empty()) {
    std::vector<std::string> names;
    for (const auto* known : at.get_subcommands(nullptr)) names.push_back(known->get_name());
    message = fmt::format("found no command, expected {}", base::join_words(names, "or"));
  }
  return base::input_error(fmt::format("{}; `{} --help` lists what is known", message, command), where);
}

Error no_output() {
  return base::peer_error("cannot write the result to standard output");
}

base::Result<base::Logger> make_logger(const Globals& globals) {
  base::LogOptions options;
  const auto level = base::parse_log_level(globals.log_level);
  if (!level.ok()) return option_error("--log-level", level.error().message);
  options.level = *level;
  if (globals.log_format == "json") {
    options.format = base::LogFormat::kJson;
  } else if (globals.log_format != "text") {
    return option_error("--log-format",
                        fmt::format("found {}, expected text or json", base::quote(globals.log_format)));
  }
  return base::Logger::to_stderr(options);
}

}  // namespace

int run_yoke(int argc, const char* const* argv, std::ostream& out, std::ostream& err, const std::string& program) {
  // Asked for here too, because the parser may stop before it comes to the flag.
  const bool json = std::any_of(argv, argv + argc, [](std::string_view word) { return word == "--json"; });
  CLI::App app("Yoke plans and runs the training of deep networks on whatever machines you have.", "yoke");
  Globals globals;
  Action chosen;
  Arguments arguments(app);
  bool flag = false;  // `json` knows already
  arguments.flag("--json", flag, "print one JSON object for scripts instead of a table");
  arguments.option("--log-level", globals.log_level, "debug, info, warning or error");
  arguments.option("--log-format", globals.log_format, "text, or json lines");
  app.set_version_flag("--version", "yoke " YOKE_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  add_commands(app, chosen);

  try {
    if (argc <= 1) {
      out << app.help();
      return 0;
    }
    app.parse(argc, argv);
    const auto log = make_logger(globals);
    if (!log.ok()) return report(log.error(), json, out, err);
    const base::SystemClock clock;
    Context context{.out = out, .log = *log, .clock = clock, .json = json, .program = program};
    const base::Status status = chosen(context);
    out.flush();
    if (!status.ok() && context.reported) return base::exit_code(status.error().kind);
    if (!status.ok()) return report(status.error(), json, out, err);
    if (!out) return report(no_output(), false, out, err);
    return context.exit_code;
  } catch (const CLI::Success& asked_for_help) {
    app.exit(asked_for_help, out, err);
    out.flush();
    return out ? 0 : report(no_output(), false, out, err);
  } catch (const CLI::ParseError& fault) {
    return report(usage_error(app, fault), json, out, err);
  } catch (const base::Failure& failure) {
    return report(failure.error(), json, out, err);
  } catch (const std::exception& fault) {
    return report({ErrorKind::kInternal, fault.what()}, json, out, err);
  }
}

}  // namespace yoke::cli
