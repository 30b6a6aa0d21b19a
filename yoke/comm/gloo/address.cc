#include "yoke/comm/gloo/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "yoke/comm/store/socket.h"

namespace yoke::comm {
namespace {

/// `0:0::1` and `::1` are the same address; empty for what is no address.
std::string normal_form(const std::string& address) {
  char text[INET6_ADDRSTRLEN] = {};
  in6_addr bits{};
  for (const int family : {AF_INET, AF_INET6}) {
    if (::inet_pton(family, address.c_str(), &bits) == 1) return ::inet_ntop(family, &bits, text, sizeof(text));
  }
  return {};
}

}  // namespace

std::vector<InterfaceAddress> list_own_addresses() {
  ifaddrs* found = nullptr;
  base::require(::getifaddrs(&found) == 0, fmt::format("getifaddrs: {}", std::strerror(errno)));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(found, &::freeifaddrs);
  std::vector<InterfaceAddress> own;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* at = found; at != nullptr; at = at->ifa_next) {
      if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != family || (at->ifa_flags & IFF_UP) == 0) continue;
      char text[NI_MAXHOST] = {};
      const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      if (::getnameinfo(at->ifa_addr, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) continue;
      own.push_back({at->ifa_name, text});
    }
  }
  return own;
}

base::Result<std::string> find_own_address(const std::string& wanted, const std::vector<InterfaceAddress>& own) {
  const std::string address = normal_form(wanted);
  for (const auto& have : own) {
    if (have.interface == wanted || have.address == wanted || (!address.empty() && have.address == address)) {
      return have.address;
    }
  }
  // All of 127.0.0.0/8 is this machine, though only one address of it is listed.
  if (!address.empty() && is_loopback(address)) return address;
  std::vector<std::string> choices;
  for (const auto& have : own) choices.push_back(fmt::format("{} ({})", have.interface, have.address));
  return base::input_error(
      fmt::format("`{}` is not a network interface or address of this machine; it has {}", wanted,
                  choices.empty() ? "none that is up" : fmt::format("{}", fmt::join(choices, ", "))));
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

base::Result<std::string> own_address_towards(const std::string& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  // Any port will do: connecting a datagram socket looks up the route and sends nothing.
  const int status = ::getaddrinfo(address.c_str(), "9", &hints, &found);
  if (status != 0) return base::input_error(fmt::format("`{}` is not an address: {}", address, ::gai_strerror(status)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  const Descriptor socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || ::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0) {
    return base::peer_error(fmt::format("no way from this machine to {}: {}", address, std::strerror(errno)));
  }
  return local_address_of(socket);
}

}  // namespace yoke::comm
