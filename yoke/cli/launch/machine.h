// This machine as a launcher sees it.
#pragma once

#include <cstdint>
#include <string>

namespace yoke::cli {

/// Cores that this process may use.
int usable_cores();
/// Bytes of memory that this process may use: the machine's, or less where its control group says so.
std::int64_t usable_memory();
/// What one of so many devices of this machine may take of that, in bytes: some is left for everything else on it.
std::int64_t memory_share(int devices);
std::string host_name();
/// Whether a name or address of a host is this machine. What cannot be resolved is another one.
bool is_this_machine(const std::string& host);
/// How other hosts can reach this one: its name where that resolves to more than loopback, else an address of its
/// first network interface that is up; 127.0.0.1 on a machine without a network.
std::string reachable_address();
/// What to listen on so that others reach this machine as `host`. A name may stand for a loopback address on its own
/// host, so anything but plain loopback is served everywhere.
std::string listening_host(const std::string& host);
/// `host:port`, or `[host]:port` of an IPv6 address.
std::string address_of(const std::string& host, int port);

}  // namespace yoke::cli
