#include "yoke/engine/flow_mail.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <span>
#include <string_view>

#include "yoke/engine/flow_header.h"
#include "yoke/engine/parameters.h"
#include "yoke/models/torch_reason.h"

namespace yoke::engine {
namespace {

/// Messages that are taken in before the stage asks for them.
constexpr std::size_t kAhead = 4;

// Headers and bodies of each payload have a tag of their own: their order is that of the sends.
std::uint32_t header_tag(plan::Payload payload) {
  return payload == plan::Payload::kActivations ? 0x100 : 0x102;
}
std::uint32_t body_tag(plan::Payload payload) {
  return header_tag(payload) + 1;
}

std::string_view name_of(plan::Payload payload) {
  return payload == plan::Payload::kActivations ? "activations" : "gradients";
}

std::span<const std::byte> const_bytes_of(const torch::Tensor& tensor) {
  const auto bytes = bytes_of(tensor);
  return {bytes.data(), bytes.size()};
}

/// Room for a tensor that a peer announces. Types and sizes that libtorch refuses are the peer's fault.
base::Result<torch::Tensor> make_room(const FlowHeader::Entry& entry, int peer) {
  const auto refused = [&](std::string_view why) {
    return base::peer_error(
        fmt::format("rank {} sends a tensor of type {} with {} elements, for which there is no room: {}", peer,
                    entry.type, c10::multiply_integers(entry.shape), why));
  };
  const auto type = static_cast<torch::ScalarType>(entry.type);
  if (type >= torch::ScalarType::Undefined || c10::isQIntType(type)) return refused("unknown type of elements");
  try {
    return torch::empty(entry.shape, torch::TensorOptions().dtype(type));
  } catch (const std::exception& fault) {
    return refused(models::torch_reason(fault));
  }
}

}  // namespace

FlowMail::FlowMail(comm::Group& group, tensor::Device& device, const base::Clock& clock)
    : group_(group),
      device_(device),
      clock_(clock),
      thread_(
          std::make_unique<base::Worker>("mail", [this](const std::stop_token& stop) { return receive_all(stop); })) {}

FlowMail::~FlowMail() {
  bool under_way = !activations_.empty() || !gradients_.empty();
  {
    base::MutexLock lock(mutex_);
    under_way = under_way || !incoming_.empty();
    stopping_ = true;
    changed_.notify_all();
  }
  if (under_way && !group_.failure()) group_.abort("a pipeline stage ended in the middle of a step");
  thread_.reset();
  // The group has failed, so that these waits end at once, and with them the use of the memory.
  for (auto* sent : {&activations_, &gradients_}) {
    for (auto& out : *sent) {
      for (auto& handle : out.handles) (void)handle.wait();
    }
  }
  base::MutexLock lock(mutex_);
  for (std::size_t i = 0; i < incoming_.size(); ++i) {
    if (i < posted_) (void)incoming_[i].announced.wait();
    for (auto& handle : incoming_[i].handles) (void)handle.wait();
  }
}

std::deque<FlowMail::Outgoing>& FlowMail::sent(plan::Payload payload) {
  return payload == plan::Payload::kActivations ? activations_ : gradients_;
}

void FlowMail::begin(std::vector<Mailing> expected, const Unread& unread, Until until) {
  base::require(activations_.empty() && gradients_.empty(), "mail of before is still on its way");
  unread_ = unread;
  until_ = std::move(until);
  base::MutexLock lock(mutex_);
  base::require(incoming_.empty() || error_, "mail of before was not taken");
  incoming_.clear();
  posted_ = 0;
  error_.reset();
  receive_until_ = until_;
  for (const auto& what : expected) incoming_.push_back({.what = what});
  changed_.notify_all();
}

base::Status FlowMail::settle(std::deque<Outgoing>& sent, std::size_t at_most) {
  while (sent.size() > at_most) {
    for (auto& handle : sent.front().handles) YOKE_CHECK(handle.wait());
    sent.pop_front();
  }
  return {};
}

base::Status FlowMail::send(const Mailing& to, const std::vector<Crossing>& crossings) {
  FlowHeader header{.worker = to.worker, .payload = to.payload};
  Outgoing out{.header = std::make_unique<Header>()};
  for (const auto& crossing : crossings) {
    const bool defined = crossing.tensor.defined();
    FlowHeader::Entry entry{.name = crossing.name, .defined = defined, .wants_gradient = crossing.wants_gradient};
    if (defined) {
      auto host = crossing.tensor.detach().cpu().contiguous();
      entry.type = static_cast<std::int8_t>(host.scalar_type());
      entry.shape = host.sizes().vec();
      out.tensors.push_back(std::move(host));
    }
    header.entries.push_back(std::move(entry));
  }
  YOKE_CHECK(encode(header, *out.header));
  const auto by = until_();
  out.handles.push_back(group_.launch(
      comm::send(out.header->data(), kHeaderBytes, comm::DType::kU8, to.peer, header_tag(to.payload)), by));
  for (const auto& tensor : out.tensors) {
    const auto bytes = const_bytes_of(tensor);
    if (bytes.empty()) continue;
    out.handles.push_back(
        group_.launch(comm::send(bytes.data(), bytes.size(), comm::DType::kU8, to.peer, body_tag(to.payload)), by));
  }
  auto& queue = sent(to.payload);
  queue.push_back(std::move(out));
  return settle(queue, to.payload == plan::Payload::kActivations ? unread_.activations : unread_.gradients);
}

base::Status FlowMail::receive_all(const std::stop_token& stop) {
  for (std::size_t next = 0;;) {
    Incoming* incoming = nullptr;
    {
      base::MutexLock lock(mutex_);
      // Deques keep their elements where they are, so `incoming` stays although others are taken.
      const auto waiting = [&]() YOKE_REQUIRES(mutex_) {
        next = 0;
        while (next < incoming_.size() && incoming_[next].ready) ++next;
        return error_ || next >= std::min(incoming_.size(), kAhead);
      };
      while (!stopping_ && !stop.stop_requested() && waiting()) {
        changed_.wait(mutex_, base::Deadline::in(std::chrono::seconds(1), clock_));
      }
      if (stopping_ || stop.stop_requested()) return {};
      for (; posted_ < std::min(incoming_.size(), kAhead); ++posted_) {
        auto& one = incoming_[posted_];
        one.header = std::make_unique<Header>();
        one.by = receive_until_();
        one.announced = group_.launch(comm::receive(one.header->data(), kHeaderBytes, comm::DType::kU8, one.what.peer,
                                                    header_tag(one.what.payload)),
                                      one.by);
      }
      incoming = &incoming_[next];
    }
    const auto received = receive(*incoming);
    base::MutexLock lock(mutex_);
    if (received.ok()) {
      incoming->ready = true;
    } else if (!error_) {
      error_ = received.error();
    }
    changed_.notify_all();
  }
}

base::Status FlowMail::receive(Incoming& incoming) {
  YOKE_CHECK(incoming.announced.wait_ahead());
  YOKE_TRY(const FlowHeader header, decode_flow_header(*incoming.header));
  const Mailing& what = incoming.what;
  if (header.worker != what.worker || header.payload != what.payload) {
    return base::peer_error(
        fmt::format("rank {} sent {} of worker {} where {} of worker {} were expected; the ranks do "
                    "not run the same plan",
                    what.peer, name_of(header.payload), header.worker, name_of(what.payload), what.worker));
  }
  for (const auto& entry : header.entries) {
    Crossing crossing{.name = entry.name, .wants_gradient = entry.wants_gradient};
    if (entry.defined) {
      YOKE_TRY(crossing.tensor, make_room(entry, what.peer));
      const auto bytes = bytes_of(crossing.tensor);
      if (!bytes.empty()) {
        incoming.handles.push_back(group_.launch(
            comm::receive(bytes.data(), bytes.size(), comm::DType::kU8, what.peer, body_tag(what.payload)),
            incoming.by));
      }
    }
    incoming.crossings.push_back(std::move(crossing));
  }
  return {};
}

base::Result<std::vector<Crossing>> FlowMail::take(const Mailing& from) {
  Incoming taken;
  const comm::Waiting waiting(group_, from.peer);
  {
    base::MutexLock lock(mutex_);
    base::require(!incoming_.empty() && incoming_.front().what == from, "mail that was not the next expected");
    const auto by = after_peers(until_());
    while (!error_ && !incoming_.front().ready) {
      if (!changed_.wait(mutex_, by) && !error_ && !incoming_.front().ready) {
        return base::peer_error(fmt::format("{} of worker {} did not come from rank {} in time", name_of(from.payload),
                                            from.worker, from.peer));
      }
    }
    if (error_) return *error_;
    taken = std::move(incoming_.front());
    incoming_.pop_front();
    --posted_;
    changed_.notify_all();
  }
  for (auto& handle : taken.handles) YOKE_CHECK(handle.wait());
  for (auto& crossing : taken.crossings) {
    if (crossing.tensor.defined()) crossing.tensor = device_.upload(crossing.tensor);
  }
  return std::move(taken.crossings);
}

base::Status FlowMail::finish() {
  YOKE_CHECK(settle(activations_, 0));
  return settle(gradients_, 0);
}

}  // namespace yoke::engine
