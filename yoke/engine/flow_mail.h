// Flows on their way between the stages of a pipeline: tensors with names and shapes, which may differ from message to
// message. Sends leave while the stage computes; a thread takes in what the stage is to receive next, a few messages
// ahead of it, so that transfers run beside passes and buffers stay bounded.
//
// On the wire a flow is a header of fixed size (flow_header.h) and then the bytes of each tensor.
#pragma once

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/mutex.h"
#include "yoke/base/result.h"
#include "yoke/base/thread.h"
#include "yoke/comm/group.h"
#include "yoke/engine/lane.h"
#include "yoke/plan/schedule.h"
#include "yoke/tensor/device.h"

namespace yoke::engine {

/// A tensor that crosses between stages.
struct Crossing {
  std::string name;
  torch::Tensor tensor;         // undefined: a gradient that does not exist
  bool wants_gradient = false;  // of an activation: whether its gradient is to come back
};

/// A message, as both sides name it.
struct Mailing {
  int peer = 0;  // a rank of the group
  plan::Payload payload = plan::Payload::kActivations;
  std::int64_t worker = 0;
  bool operator==(const Mailing&) const = default;
};

/// One thread owns it. The group must outlive it.
class FlowMail {
 public:
  FlowMail(comm::Group& group, tensor::Device& device, const base::Clock& clock);
  /// With mail under way it ends the group: the memory that is on its way is about to go.
  ~FlowMail();
  FlowMail(const FlowMail&) = delete;
  FlowMail& operator=(const FlowMail&) = delete;

  /// All that will be received until finish(), in the order in which it will be taken. `unread` bounds the sends of
  /// each kind that may be on their way: the receivers must have taken those before, or be about to whatever this rank
  /// does. `until` is asked for the deadline of every message; any thread.
  struct Unread {
    std::size_t activations = 4;
    std::size_t gradients = 4;
  };
  void begin(std::vector<Mailing> expected, const Unread& unread, Until until);
  /// The tensors are kept until they have left; the caller must not change them. Input error for a flow that a header
  /// cannot hold.
  base::Status send(const Mailing& to, const std::vector<Crossing>& crossings);
  /// The next expected message, which must be `from`.
  base::Result<std::vector<Crossing>> take(const Mailing& from);
  /// Until all has left.
  base::Status finish();

 private:
  static constexpr std::size_t kHeaderBytes = 4096;
  using Header = std::array<std::byte, kHeaderBytes>;

  struct Outgoing {
    std::unique_ptr<Header> header;
    std::vector<torch::Tensor> tensors;
    std::vector<comm::Handle> handles;
  };
  struct Incoming {
    Mailing what;
    std::unique_ptr<Header> header;
    base::Deadline by = base::Deadline::at({});
    comm::Handle announced;
    std::vector<Crossing> crossings;
    std::vector<comm::Handle> handles;
    bool ready = false;  // the handles are there to be waited for
  };

  base::Status receive_all(const std::stop_token& stop);
  base::Status receive(Incoming& incoming);
  base::Status settle(std::deque<Outgoing>& sent, std::size_t at_most);
  std::deque<Outgoing>& sent(plan::Payload payload);

  comm::Group& group_;
  tensor::Device& device_;
  const base::Clock& clock_;

  // The owner's.
  std::deque<Outgoing> activations_;
  std::deque<Outgoing> gradients_;
  Unread unread_;
  Until until_;

  base::Mutex mutex_;
  base::Condition changed_;
  std::deque<Incoming> incoming_ YOKE_GUARDED_BY(mutex_);  // the first is the next to be taken
  std::size_t posted_ YOKE_GUARDED_BY(mutex_) = 0;         // of them, whose header was asked for
  Until receive_until_ YOKE_GUARDED_BY(mutex_);
  std::optional<base::Error> error_ YOKE_GUARDED_BY(mutex_);
  bool stopping_ YOKE_GUARDED_BY(mutex_) = false;
  std::unique_ptr<base::Worker> thread_;  // uses everything above
};

}  // namespace yoke::engine
