#include "yoke/cli/run/metrics_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "yoke/base/text.h"
#include "yoke/cli/command.h"

namespace yoke::cli {
namespace {

using comm::Descriptor;

constexpr const char* kHost = "127.0.0.1";
constexpr std::size_t kLongestRequest = 8192;
constexpr base::Duration kPatience = std::chrono::seconds(2);

/// False once the deadline has passed.
bool wait_for(const Descriptor& socket, short events, const base::Deadline& deadline, const base::Clock& clock) {
  for (;;) {
    pollfd ready{.fd = socket.get(), .events = events, .revents = 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left(clock)).count();
    const int got = ::poll(&ready, 1, static_cast<int>(left));
    if (got > 0) return true;
    if (got == 0 || errno != EINTR) return false;
  }
}

std::string response(std::string_view status, std::string_view type, std::string_view body, bool with_body = true) {
  return fmt::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}", status,
                     type, body.size(), with_body ? body : "");
}

std::string plain(std::string_view status, std::string_view text) {
  return response(status, "text/plain; charset=utf-8", text);
}

}  // namespace

std::string answer_request(std::string_view head, const std::function<std::string()>& page) {
  const auto words = base::split(head.substr(0, head.find("\r\n")), " ");
  if (words.size() != 3 || !words[2].starts_with("HTTP/1.")) return plain("400 Bad Request", "expected HTTP/1.1\n");
  if (words[0] != "GET" && words[0] != "HEAD") return plain("405 Method Not Allowed", "expected GET\n");
  if (words[1].substr(0, words[1].find('?')) != "/metrics") return plain("404 Not Found", "only /metrics is here\n");
  return response("200 OK", "text/plain; version=0.0.4; charset=utf-8", page(), words[0] == "GET");
}

base::Result<std::unique_ptr<MetricsServer>> MetricsServer::start(int port, std::function<std::string()> page,
                                                                  const base::Clock& clock) {
  if (port < 0 || port > 65535) {
    return option_error("--metrics-port", fmt::format("found {}, expected 0 (a free port) to 65535", port));
  }
  auto listener = comm::listen_on(kHost, static_cast<std::uint16_t>(port));
  if (!listener.ok()) return option_error("--metrics-port", listener.error().message);
  return std::make_unique<MetricsServer>(*std::move(listener), std::move(page), clock);
}

MetricsServer::MetricsServer(Descriptor listener, std::function<std::string()> page, const base::Clock& clock)
    : listener_(std::move(listener)),
      port_(comm::port_of(listener_)),
      page_(std::move(page)),
      clock_(clock),
      woken_(comm::make_wake_event()),
      thread_("metrics", [this](const std::stop_token& stop) { return serve(stop); }) {}

MetricsServer::~MetricsServer() {
  thread_.request_stop();
  comm::wake(woken_);
}

std::string MetricsServer::url() const {
  return fmt::format("http://{}:{}/metrics", kHost, port_);
}

base::Status MetricsServer::serve(const std::stop_token& stop) const {
  while (!stop.stop_requested()) {
    pollfd sources[] = {{.fd = listener_.get(), .events = POLLIN, .revents = 0},
                        {.fd = woken_.get(), .events = POLLIN, .revents = 0}};
    constexpr int kAtLeastEvery = 1000;  // should the wake-up be lost
    if (::poll(sources, 2, kAtLeastEvery) <= 0 || (sources[0].revents & POLLIN) == 0) continue;
    const Descriptor client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (client.valid()) answer(client);
  }
  return {};
}

void MetricsServer::answer(const Descriptor& client) const {
  const auto deadline = base::Deadline::in(kPatience, clock_);
  std::string request;
  while (request.find("\r\n\r\n") == std::string::npos) {
    if (request.size() > kLongestRequest || !wait_for(client, POLLIN, deadline, clock_)) return;
    char chunk[2048];
    const ssize_t got = ::recv(client.get(), chunk, sizeof(chunk), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
    if (got > 0) request.append(chunk, static_cast<std::size_t>(got));
  }
  const std::string whole = answer_request(request, page_);
  for (std::string_view rest = whole; !rest.empty();) {
    if (!wait_for(client, POLLOUT, deadline, clock_)) return;
    const ssize_t sent = ::send(client.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return;
    if (sent > 0) rest.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace yoke::cli
