// `yoke` run in process, as scripts and people run it.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "yoke/cli/command.h"

namespace yoke::cli {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

inline Outcome yoke(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"yoke", "--log-level", "error"});
  std::vector<const char*> pointers;
  for (const auto& argument : arguments) pointers.push_back(argument.c_str());
  std::ostringstream out, err;
  const int code = run_yoke(static_cast<int>(pointers.size()), pointers.data(), out, err);
  return {code, out.str(), err.str()};
}

}  // namespace yoke::cli
