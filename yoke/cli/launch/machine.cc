#include "yoke/cli/launch/machine.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/base/units.h"

namespace yoke::cli {
namespace {

/// An address in numbers; empty for families that are not of the Internet.
std::string numbers_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address == nullptr) return {};
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text)) != nullptr ? text : "";
  }
  if (address->sa_family != AF_INET6) return {};
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  return ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text)) != nullptr ? text : "";
}

bool is_loopback(const std::string& numbers) {
  return numbers.starts_with("127.") || numbers == "::1";
}

std::vector<std::string> resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, ::freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) addresses.push_back(numbers_of(at->ai_addr));
  return addresses;
}

/// Of all interfaces that are up, IPv4 first.
std::vector<std::string> own_addresses() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(found, ::freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* at = list.get(); at != nullptr; at = at->ifa_next) {
    std::string numbers = numbers_of(at->ifa_addr);
    if ((at->ifa_flags & IFF_UP) != 0 && !numbers.empty()) addresses.push_back(std::move(numbers));
  }
  std::stable_partition(addresses.begin(), addresses.end(),
                        [](const std::string& text) { return text.find(':') == std::string::npos; });
  return addresses;
}

}  // namespace

int usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::int64_t usable_memory() {
  std::int64_t least = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGE_SIZE);
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const auto text = base::read_file(file);
    if (!text.ok()) continue;
    const auto limit = base::parse_integer(base::trim(*text));  // `max`: none
    if (limit.ok() && *limit > 0) least = std::min(least, *limit);
  }
  return least;
}

std::int64_t memory_share(int devices) {
  constexpr double kOwnShare = 0.8;
  return static_cast<std::int64_t>(kOwnShare * static_cast<double>(usable_memory()) / devices);
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

bool is_this_machine(const std::string& host) {
  if (host.empty() || host == "localhost" || host == host_name()) return true;
  const auto own = own_addresses();
  return std::ranges::any_of(resolve(host), [&](const std::string& address) {
    return is_loopback(address) || std::ranges::find(own, address) != own.end();
  });
}

std::string listening_host(const std::string& host) {
  if (host == "localhost" || host.starts_with("127.") || host == "::1") return host;
  return host.find(':') == std::string::npos ? "0.0.0.0" : "::";
}

std::string address_of(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

std::string reachable_address() {
  const std::string name = host_name();
  const auto resolved = resolve(name);
  if (!resolved.empty() && std::ranges::none_of(resolved, is_loopback)) return name;
  for (const auto& address : own_addresses()) {
    if (!is_loopback(address) && !address.starts_with("fe80:")) return address;
  }
  return "127.0.0.1";
}

}  // namespace yoke::cli
