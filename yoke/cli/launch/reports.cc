#include "yoke/cli/launch/reports.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "yoke/base/text.h"

namespace yoke::cli {
namespace {

using base::Json;
using base::View;

/// null stands for what JSON cannot say.
double number_or_nan(View& view, const std::string& key) {
  auto field = view.find(key);
  return field ? field->number() : std::numeric_limits<double>::quiet_NaN();
}

/// A text for people, of another process: nothing in it may steer a terminal.
std::string shown(View view) {
  const std::string text = view.text();
  return base::printable(text, text.size());
}

engine::StepReport read_step(View view) {
  engine::StepReport step;
  step.step = view.field("step").integer();
  step.epoch = view.field("epoch").integer();
  step.gbs = view.field("gbs").integer();
  step.lbs = view.field("lbs").integer();
  step.workers = view.field("workers").integer();
  step.loss = number_or_nan(view, "loss");
  step.lr = number_or_nan(view, "lr");
  step.step_seconds = number_or_nan(view, "step_seconds");
  step.samples_per_second = number_or_nan(view, "samples_per_second");
  step.samples = view.field("samples").integer();
  step.total_samples = view.field("total_samples").integer();
  step.total_steps = view.field("total_steps").integer();
  return step;
}

engine::Event read_event(View view) {
  engine::Event event;
  event.kind = shown(view.field("kind"));
  event.detail = shown(view.field("detail"));
  event.step = view.field("step").integer();
  View values = view.field("values");
  for (const auto& [name, value] : values.entries()) event.values.emplace_back(name, number_or_nan(values, name));
  return event;
}

struct ToJson {
  Json operator()(const engine::StepReport& step) const {
    Json json = to_json(step);
    json["total_steps"] = step.total_steps;
    return Json{{"step", std::move(json)}};
  }
  Json operator()(const engine::Event& event) const { return Json{{"event", to_json(event)}}; }
  Json operator()(const base::Error& error) const { return Json{{"error", to_json(error)}}; }
};

constexpr std::pair<base::ErrorKind, std::string_view> kKinds[] = {{base::ErrorKind::kInput, "input"},
                                                                   {base::ErrorKind::kInfeasible, "infeasible"},
                                                                   {base::ErrorKind::kPeer, "peer"},
                                                                   {base::ErrorKind::kInternal, "internal"}};

}  // namespace

std::string to_line(const Report& report) {
  return std::visit(ToJson(), report).dump() + "\n";
}

base::Result<Report> parse_report(std::string_view line) {
  YOKE_TRY(const base::Document document, base::parse_json(line, "report of a rank"));
  base::Reader reader(document);
  View root = reader.root();
  Report report;
  if (auto step = root.find("step")) {
    report = read_step(*step);
  } else if (auto event = root.find("event")) {
    report = read_event(*event);
  } else {
    report = read_error(root.field("error"));
  }
  if (!reader.ok()) return reader.error();
  return report;
}

Json to_json(const base::Error& error) {
  return {{"kind", base::to_string(error.kind)},
          {"message", error.message},
          {"where", error.where.to_string()},
          {"file", error.where.file},
          {"line", error.where.line},
          {"field", error.where.field}};
}

base::Error read_error(View view) {
  std::vector<std::string> names;
  for (const auto& [kind, name] : kKinds) names.emplace_back(name);
  base::Error error;
  error.kind = kKinds[view.field("kind").one_of(names)].first;
  error.message = shown(view.field("message"));
  error.where = {.file = shown(view.field("file")),
                 .line = static_cast<int>(view.field("line").integer({.least = 0, .most = 1e9})),
                 .field = shown(view.field("field"))};
  return error;
}

Json to_json(const engine::StepReport& step) {
  return {{"step", step.step},
          {"epoch", step.epoch},
          {"gbs", step.gbs},
          {"lbs", step.lbs},
          {"workers", step.workers},
          {"loss", step.loss},
          {"lr", step.lr},
          {"step_seconds", step.step_seconds},
          {"samples_per_second", step.samples_per_second},
          {"samples", step.samples},
          {"total_samples", step.total_samples}};
}

Json to_json(const engine::Event& event) {
  Json values = Json::object();
  for (const auto& [name, value] : event.values) values[name] = value;
  return {{"kind", event.kind}, {"detail", event.detail}, {"step", event.step}, {"values", std::move(values)}};
}

ReportSender::ReportSender(int fd) : socket_(fd) {
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  const timeval patience{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

void ReportSender::send(const Report& report) const {
  const std::string line = to_line(report);
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace yoke::cli
