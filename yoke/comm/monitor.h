// The thread of a group that listens to what the other ranks have to say (notice.h), answers for its own, and finds out
// who is to blame when something fails.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "yoke/base/mutex.h"
#include "yoke/base/thread.h"
#include "yoke/comm/notice.h"
#include "yoke/comm/store/store.h"

namespace yoke::comm {

class Monitor {
 public:
  /// What the group does with what the monitor hears. Called in the monitor's thread.
  struct Ears {
    std::function<Notice()> state;               // what this rank is doing now
    std::function<void(const Notice&)> left;     // a rank has left in good order
    std::function<void(const Verdict&)> failed;  // once, at most
  };

  /// How long ranks have to answer when one of them is in trouble; those that have not are silent.
  static constexpr base::Duration kPatience = std::chrono::milliseconds(400);

  /// Asks the store to announce this rank's loss should its process end. Every member calls it before the first op.
  static base::Status leave_will(Store& post, const Membership& members, const base::Deadline& deadline);

  Monitor(const Membership& members, std::unique_ptr<Store> watch, std::unique_ptr<Store> post,
          const base::Clock& clock, Ears ears);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// Tells all ranks, this one included. Any thread. What cannot be told (the store is gone) is lost: the monitor
  /// notices that by itself.
  void tell(const Notice& notice);
  /// This rank ends in good order, or after a failure that everyone knows: its end is no news.
  base::Status withdraw_will();

 private:
  base::Status listen(const std::stop_token& stop);

  const Membership& members_;  // the group's
  const base::Clock& clock_;
  const Ears ears_;
  const std::unique_ptr<Store> watch_;
  const std::unique_ptr<Store> post_;
  base::Worker thread_;  // last: it uses everything above
};

}  // namespace yoke::comm
