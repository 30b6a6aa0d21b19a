// Two hosts, as network namespaces joined by a virtual cable. Needs iproute2 and the right to make namespaces.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace yoke::testing {

/// Namespaces a and b with addresses 10.77.0.1 and 10.77.0.2; gone at the end.
class TwoHosts {
 public:
  TwoHosts() {
    works_ =
        run("ip netns add {0}a && ip netns add {0}b && ip link add {0}a type veth peer name {0}b && "
            "ip link set {0}a netns {0}a && ip link set {0}b netns {0}b && "
            "ip -n {0}a addr add 10.77.0.1/24 dev {0}a && ip -n {0}b addr add 10.77.0.2/24 dev {0}b && "
            "ip -n {0}a link set {0}a up && ip -n {0}b link set {0}b up && "
            "ip -n {0}a link set lo up && ip -n {0}b link set lo up");
  }
  ~TwoHosts() { run("ip netns del {0}a; ip netns del {0}b"); }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  bool works() const { return works_; }
  void cut_the_cable() { run("ip -n {0}a link set {0}a down"); }

  /// A program on host a or b.
  Process start(char host, const std::vector<std::string>& words) const {
    std::vector<std::string> command{"ip", "netns", "exec", name_ + host};
    command.insert(command.end(), words.begin(), words.end());
    return Process(command);
  }

 private:
  bool run(const std::string& commands) const {
    const std::string all = fmt::format(fmt::runtime(commands), name_);
    return std::system(("{ " + all + "; } >/dev/null 2>&1").c_str()) == 0;
  }

  const std::string name_ = fmt::format("yk{}", ::getpid());
  bool works_ = false;
};

}  // namespace yoke::testing
