// A store over TCP: one process serves it, every rank connects. There is no default port: the server takes a free one
// and whoever launches the ranks tells them the address. With a token, only clients that know it get to the board, and
// they know that the server knows it too; the token itself does not travel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/comm/store/store.h"

namespace yoke::comm {

/// Serves a store from a thread of its own until it is destroyed.
class TcpStoreServer {
 public:
  virtual ~TcpStoreServer() = default;
  virtual std::uint16_t port() const = 0;
  /// Until no client is connected; false if some still are at the deadline. A rank that serves the store of its group
  /// calls it before it ends: the others may not be done with theirs.
  virtual bool drain(const base::Deadline& deadline) = 0;

  /// Listens on `host` (a name or an address; "0.0.0.0" or "::" for all interfaces). Port 0 takes a free one. Without a
  /// token, everybody who can reach the port is a client.
  static base::Result<std::unique_ptr<TcpStoreServer>> start(const std::string& host, std::uint16_t port = 0,
                                                             const std::string& token = {});
};

/// `host:port` or `[v6 address]:port`. Tries again until the deadline: the server may start after its clients. Input
/// error when the server refuses the token.
base::Result<std::unique_ptr<Store>> connect_tcp_store(const std::string& address, const base::Deadline& deadline,
                                                       const base::Clock& clock, const std::string& token = {});

}  // namespace yoke::comm
