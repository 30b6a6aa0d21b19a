#include "yoke/cli/command.h"

#include <algorithm>
#include <ostream>
#include <utility>

namespace yoke::cli {

base::Error option_error(std::string option, std::string message) {
  return base::input_error(std::move(message), {.field = std::move(option)});
}

base::Error at_option(base::Error error, const std::vector<std::string>& options) {
  if (!error.where.file.empty()) return error;
  for (const std::string& option : options) {
    std::string field = option.substr(option.find_first_not_of('-'));
    std::replace(field.begin(), field.end(), '-', '_');
    if (field != error.where.field) continue;
    error.where.field = option;
    break;
  }
  return error;
}

void print_json(Context& context, const Json& json) {
  context.out << json.dump() << "\n";
}

}  // namespace yoke::cli
