#include "yoke/comm/message/headed_transport.h"

#include <fmt/format.h>

#include <cstring>
#include <type_traits>
#include <vector>

namespace yoke::comm {
namespace {

/// Messages up to this size travel together with their header.
constexpr std::size_t kEagerBytes = 16U << 10U;

struct Header {
  Signature signature;
  std::uint64_t bytes = 0;
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 32);

Lane body_lane(const Lane& head, std::size_t bytes) {
  return {.kind = Lane::Kind::kBody, .channel = head.channel, .tag = head.tag, .bytes = bytes};
}

class HeadedSend final : public Transfer {
 public:
  HeadedSend(Wire& wire, int to, const Lane& lane, const Header& header, std::span<const std::byte> bytes) {
    const bool eager = bytes.size() <= kEagerBytes;
    room_.resize(sizeof(header) + (eager ? bytes.size() : 0));
    std::memcpy(room_.data(), &header, sizeof(header));
    if (eager && !bytes.empty()) std::memcpy(room_.data() + sizeof(header), bytes.data(), bytes.size());
    head_ = wire.send(to, lane, room_);
    if (!eager) body_ = wire.send(to, body_lane(lane, bytes.size()), bytes);
  }

  Outcome wait(const Call& call) override {
    if (auto trouble = head_->wait(call)) return trouble;
    return body_ ? body_->wait(call) : std::nullopt;
  }

 private:
  std::vector<std::byte> room_;  // before head_, which reads it
  std::unique_ptr<Transfer> head_;
  std::unique_ptr<Transfer> body_;
};

class HeadedReceive final : public Transfer {
 public:
  HeadedReceive(Wire& wire, int from, const Lane& lane, const Signature& signature, std::span<std::byte> bytes)
      : from_(from),
        signature_(signature),
        bytes_(bytes),
        room_(std::make_unique_for_overwrite<std::byte[]>(kRoom)),
        head_(wire.receive(from, lane, {room_.get(), kRoom})),
        body_(bytes.size() > kEagerBytes ? wire.receive(from, body_lane(lane, bytes.size()), bytes) : nullptr) {}

  Outcome wait(const Call& call) override {
    if (auto trouble = head_->wait(call)) return trouble;
    Header header;
    std::memcpy(&header, room_.get(), sizeof(header));
    if (header.signature != signature_) return mismatch(from_, signature_, header.signature);
    if (header.bytes != bytes_.size()) {
      return Trouble{.kind = Trouble::Kind::kMismatch,
                     .peer = from_,
                     .detail = fmt::format("sent {} bytes where this rank expected {}", header.bytes, bytes_.size())};
    }
    if (body_) return body_->wait(call);
    if (!bytes_.empty()) std::memcpy(bytes_.data(), room_.get() + sizeof(header), bytes_.size());
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kRoom = sizeof(Header) + kEagerBytes;

  const int from_;
  const Signature signature_;
  const std::span<std::byte> bytes_;
  const std::unique_ptr<std::byte[]> room_;  // before head_, which writes it
  const std::unique_ptr<Transfer> head_;
  const std::unique_ptr<Transfer> body_;
};

class HeadedTransport final : public Transport {
 public:
  explicit HeadedTransport(std::unique_ptr<Wire> wire) : wire_(std::move(wire)) {}

  std::string_view name() const override { return wire_->name(); }
  void interrupt() override { wire_->interrupt(); }

  std::unique_ptr<Transfer> send(int to, Channel channel, std::uint32_t tag, const Signature* signature,
                                 std::span<const std::byte> bytes) override {
    if (signature == nullptr) return wire_->send(to, {.channel = channel, .tag = tag}, bytes);
    const Lane lane{.kind = Lane::Kind::kHeaded, .channel = channel, .tag = tag};
    const Header header{.signature = *signature, .bytes = bytes.size()};
    return std::make_unique<HeadedSend>(*wire_, to, lane, header, bytes);
  }

  std::unique_ptr<Transfer> receive(int from, Channel channel, std::uint32_t tag, const Signature* signature,
                                    std::span<std::byte> bytes) override {
    if (signature == nullptr) return wire_->receive(from, {.channel = channel, .tag = tag}, bytes);
    const Lane lane{.kind = Lane::Kind::kHeaded, .channel = channel, .tag = tag};
    return std::make_unique<HeadedReceive>(*wire_, from, lane, *signature, bytes);
  }

 private:
  const std::unique_ptr<Wire> wire_;
};

}  // namespace

std::unique_ptr<Transport> make_headed_transport(std::unique_ptr<Wire> wire) {
  return std::make_unique<HeadedTransport>(std::move(wire));
}

}  // namespace yoke::comm
