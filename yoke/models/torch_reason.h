// What libtorch says when it throws, cut down to the line that a person can use.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>
#include <string_view>

#include "yoke/base/text.h"

namespace yoke::models {

/// The reason without the C++ backtrace; of a TorchScript traceback the last line, else the first.
inline std::string torch_reason(const std::exception& exception) {
  const auto* error = dynamic_cast<const c10::Error*>(&exception);
  const std::string text = error != nullptr ? error->what_without_backtrace() : exception.what();
  std::string_view reason;
  for (const std::string_view line : base::split(text, "\n")) {
    if (!base::trim(line).empty()) reason = base::trim(line);
    if (!reason.empty() && text.find("Traceback of TorchScript") == std::string::npos) break;
  }
  return base::quote(reason, 400);
}

}  // namespace yoke::models
