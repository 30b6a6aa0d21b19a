// Descriptors that close themselves, and the few socket calls that the store needs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "yoke/base/clock.h"
#include "yoke/base/descriptor.h"
#include "yoke/base/result.h"

namespace yoke::comm {

using base::Descriptor;

struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
/// `host:port` or `[v6]:port`.
base::Result<HostPort> parse_address(const std::string& address);

/// A listening, non-blocking socket.
base::Result<Descriptor> listen_on(const std::string& host, std::uint16_t port);
std::uint16_t port_of(const Descriptor& socket);
/// The address that this side of a connected socket has, in numbers.
std::string local_address_of(const Descriptor& socket);
/// A connected, non-blocking socket; one attempt.
base::Result<Descriptor> connect_to(const HostPort& address, const base::Deadline& deadline, const base::Clock& clock);
/// The kernel gives a connection up when the other side has been silent for about `patience`.
void detect_silence(const Descriptor& socket, base::Duration patience);
/// Something that another thread can make readable: wakes a poll().
Descriptor make_wake_event();
void wake(const Descriptor& event);

}  // namespace yoke::comm
