// What ranks tell the `yoke run` that has started them: JSON lines over a socket that they inherit.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "yoke/base/document.h"
#include "yoke/base/json.h"
#include "yoke/base/result.h"
#include "yoke/comm/store/socket.h"
#include "yoke/engine/rank.h"

namespace yoke::cli {

/// A step or an event of training, or the error that the rank ends with.
using Report = std::variant<engine::StepReport, engine::Event, base::Error>;

/// One line, newline included.
std::string to_line(const Report& report);
base::Result<Report> parse_report(std::string_view line);

/// `{"kind", "message", "where"}`, as --json prints errors, with the parts of the place beside it.
base::Json to_json(const base::Error& error);
/// An object that to_json() has made. What is not printable in its texts is escaped.
base::Error read_error(base::View view);

/// A step or an event as metrics.jsonl and events.jsonl hold them; numbers that are not finite are null.
base::Json to_json(const engine::StepReport& step);
base::Json to_json(const engine::Event& event);

/// The rank's end of the socket. What cannot be sent (nobody listens any more) is lost: training does not depend on it.
class ReportSender {
 public:
  /// Takes over the descriptor, which must not reach processes that this one starts.
  explicit ReportSender(int fd);
  void send(const Report& report) const;

 private:
  comm::Descriptor socket_;
};

}  // namespace yoke::cli
