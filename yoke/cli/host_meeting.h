// Hosts that run the same command come together: the first of the list serves a store, the others connect to it. For
// commands that people start by hand, or by ssh, on every host.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/cli/command.h"
#include "yoke/comm/store/store.h"
#include "yoke/comm/store/tcp_store.h"

namespace yoke::cli {

struct HostOptions {
  std::vector<std::string> hosts;  // names or addresses, the same list on every host
  std::optional<int> rank;         // which of them this one is; absent: found out by its addresses
  int port = 29410;                // of the first host
  std::string timeout = "60s";     // for the others to come, and to answer

  /// Declares --hosts, --rank, --port and --timeout.
  void declare(Arguments& command);
  /// Which host this is. Input error at --rank when that cannot be told.
  base::Result<int> own_rank() const;
};

/// One host's end of the meeting. Who goes away without leave() is missed by the others at once. One thread only.
class HostMeeting {
 public:
  /// An empty token lets everybody in who can reach the port. kPeer naming the first host when it cannot be reached;
  /// input error at --port when that is taken, at --token when it is refused.
  static base::Result<HostMeeting> join(const HostOptions& options, const std::string& token, const base::Clock& clock);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(hosts_.size()); }
  /// `b (rank 1)`
  std::string describe(int rank) const;
  /// The address of the store, for processes that this host starts.
  const std::string& address() const { return address_; }
  comm::Store& store() { return *store_; }
  base::Deadline patience() const { return base::Deadline::in(timeout_, clock_); }

  /// Every host says something and gets what all have said, in the order of the list. `phase` is used once. One that
  /// has failed says so: it gets its own error back, the others one of kind kPeer that names it. kPeer naming the hosts
  /// that are lost, or silent at the deadline.
  base::Result<std::vector<std::string>> exchange(const std::string& phase, const base::Result<std::string>& own,
                                                  const base::Deadline& deadline);

  /// In good order: the first host waits until the others have gone.
  void leave();

 private:
  explicit HostMeeting(const base::Clock& clock) : clock_(clock) {}
  base::Error lost_store(const base::Error& error) const;
  /// One entry of the log that all hosts write to.
  base::Status take(const std::string& text);

  const base::Clock& clock_;
  std::vector<std::string> hosts_;
  int rank_ = 0;
  base::Duration timeout_{};
  std::string address_;
  std::size_t seen_ = 0;                                    // entries of the log
  std::map<std::string, std::map<int, std::string>> said_;  // by phase and rank
  std::map<int, std::string> failed_;                       // and why
  std::unique_ptr<comm::TcpStoreServer> server_;            // on the first host
  std::unique_ptr<comm::Store> store_;
};

}  // namespace yoke::cli
