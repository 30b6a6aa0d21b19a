// Which address of this machine its peers should connect to. Pure where it can be; any thread.
#pragma once

#include <string>
#include <vector>

#include "yoke/base/result.h"

namespace yoke::comm {

/// An address of this machine, in numbers, and the network interface that has it.
struct InterfaceAddress {
  std::string interface;
  std::string address;
};

/// All addresses of interfaces that are up, IPv4 before IPv6.
std::vector<InterfaceAddress> list_own_addresses();

/// The address that a user means by the name of an interface or by an address; an input error that lists what there is
/// when `own` has no such thing.
base::Result<std::string> find_own_address(const std::string& wanted, const std::vector<InterfaceAddress>& own);

/// `127.x.x.x` or `::1`.
bool is_loopback(const std::string& address);

/// The address of this machine that packets to `address` (in numbers) start from. Sends nothing.
base::Result<std::string> own_address_towards(const std::string& address);

}  // namespace yoke::comm
