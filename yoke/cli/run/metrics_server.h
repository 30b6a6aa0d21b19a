// A small HTTP server for one page, /metrics: what Prometheus scrapes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/base/thread.h"
#include "yoke/comm/store/socket.h"

namespace yoke::cli {

/// Serves on loopback from a thread of its own until it is destroyed. One request at a time, of bounded size and time:
/// a client that says nothing delays others by two seconds, and training not at all.
class MetricsServer {
 public:
  /// `port` 0 takes a free one. Input error at --metrics-port when the port cannot be had. `page` is called in the
  /// server's thread; `clock` must outlive the server.
  static base::Result<std::unique_ptr<MetricsServer>> start(int port, std::function<std::string()> page,
                                                            const base::Clock& clock);
  MetricsServer(comm::Descriptor listener, std::function<std::string()> page, const base::Clock& clock);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  std::uint16_t port() const { return port_; }
  /// `http://127.0.0.1:9100/metrics`
  std::string url() const;

 private:
  base::Status serve(const std::stop_token& stop) const;
  void answer(const comm::Descriptor& client) const;

  const comm::Descriptor listener_;
  const std::uint16_t port_;
  const std::function<std::string()> page_;
  const base::Clock& clock_;
  const comm::Descriptor woken_;
  base::Worker thread_;  // last: it uses everything above
};

/// The whole answer to a request's head (everything up to the empty line).
std::string answer_request(std::string_view head, const std::function<std::string()>& page);

}  // namespace yoke::cli
