#include "yoke/comm/store/socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "yoke/base/units.h"

namespace yoke::comm {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

base::Result<AddressList> resolve(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (status != 0) {
    return base::input_error(
        fmt::format("`{}` does not resolve: {}; expected a host name or an address", host, ::gai_strerror(status)));
  }
  return AddressList(found, &::freeaddrinfo);
}

sockaddr_storage own_end_of(const Descriptor& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  base::require(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0, "getsockname");
  return address;
}

void set_option(int fd, int level, int option, int value) {
  // Tuning only: a socket without it works.
  (void)::setsockopt(fd, level, option, &value, sizeof(value));
}

}  // namespace

base::Result<HostPort> parse_address(const std::string& address) {
  const auto wrong = [&] {
    return base::input_error(fmt::format("`{}` is not an address; expected host:port or [v6 address]:port", address));
  };
  const auto colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return wrong();
  HostPort result{.host = address.substr(0, colon)};
  if (result.host.front() == '[') {
    if (result.host.back() != ']') return wrong();
    result.host = result.host.substr(1, result.host.size() - 2);
  } else if (result.host.find(':') != std::string::npos) {
    return wrong();
  }
  const auto port = base::parse_integer(address.substr(colon + 1));
  if (!port.ok() || *port < 1 || *port > 65535 || result.host.empty()) return wrong();
  result.port = static_cast<std::uint16_t>(*port);
  return result;
}

base::Result<Descriptor> listen_on(const std::string& host, std::uint16_t port) {
  YOKE_TRY(const AddressList addresses, resolve(host, port, AI_PASSIVE));
  int problem = 0;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    Descriptor socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.valid()) set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (socket.valid() && ::bind(socket.get(), at->ai_addr, at->ai_addrlen) == 0 && ::listen(socket.get(), 512) == 0) {
      return socket;
    }
    problem = errno;
  }
  return base::input_error(
      fmt::format("cannot listen on {}:{}: {}; use an address of this machine and a free port "
                  "(0 takes one)",
                  host, port, std::strerror(problem)));
}

std::uint16_t port_of(const Descriptor& socket) {
  const sockaddr_storage address = own_end_of(socket);
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address);
  return ntohs(address.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

std::string local_address_of(const Descriptor& socket) {
  const sockaddr_storage address = own_end_of(socket);
  char text[NI_MAXHOST] = {};
  const auto* any = reinterpret_cast<const sockaddr*>(&address);
  const int status = ::getnameinfo(any, sizeof(address), text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  base::require(status == 0, fmt::format("getnameinfo: {}", ::gai_strerror(status)));
  return text;
}

base::Result<Descriptor> connect_to(const HostPort& address, const base::Deadline& deadline, const base::Clock& clock) {
  YOKE_TRY(const AddressList addresses, resolve(address.host, address.port, 0));
  int problem = 0;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    Descriptor socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.valid()) {
      problem = errno;
      continue;
    }
    if (::connect(socket.get(), at->ai_addr, at->ai_addrlen) != 0) {
      problem = errno;
      if (problem != EINPROGRESS) continue;
      pollfd ready{.fd = socket.get(), .events = POLLOUT, .revents = 0};
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left(clock)).count();
      if (::poll(&ready, 1, static_cast<int>(std::min<long>(left, 1'000'000))) <= 0) {
        problem = ETIMEDOUT;
        continue;
      }
      socklen_t length = sizeof(problem);
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &problem, &length);
      if (problem != 0) continue;
    }
    set_option(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
    return socket;
  }
  return base::peer_error(
      fmt::format("cannot connect to {}:{}: {}", address.host, address.port, std::strerror(problem)));
}

void detect_silence(const Descriptor& socket, base::Duration patience) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  set_option(socket.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(std::max<long>(1, ms / 2000)));
  set_option(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(socket.get(), IPPROTO_TCP, TCP_KEEPCNT, static_cast<int>(std::max<long>(1, ms / 2000)));
  set_option(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(ms));
}

Descriptor make_wake_event() {
  Descriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  base::require(event.valid(), fmt::format("eventfd: {}", std::strerror(errno)));
  return event;
}

void wake(const Descriptor& event) {
  const std::uint64_t one = 1;
  (void)!::write(event.get(), &one, sizeof(one));  // it can only fail when it is readable already
}

}  // namespace yoke::comm
