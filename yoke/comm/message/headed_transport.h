// Signatures on messages, for libraries that only move bytes. A message with a signature starts with a header of known
// size. A small message travels together with its header, into memory that is large enough for any such message; a
// large one on a lane of its own that depends on its size: sides that disagree never meet there, and the header tells
// why. So no library is ever made to put more into the caller's memory than belongs there, and a message arrives
// although nobody waits for it yet.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "yoke/comm/message/transport.h"

namespace yoke::comm {

/// What tells messages between two ranks apart. Those on one lane arrive in the order sent.
struct Lane {
  enum class Kind : std::uint8_t {
    kBare,    // a message alone
    kHeaded,  // a header, and its message if it is small
    kBody,    // a large message that follows its header
  };
  Kind kind = Kind::kBare;
  Channel channel = Channel::kCollective;
  std::uint32_t tag = 0;
  std::uint64_t bytes = 0;  // of kBody: its size
};

/// A library that moves bytes. Functions may be called from any thread.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual std::string_view name() const = 0;
  virtual std::unique_ptr<Transfer> send(int to, const Lane& lane, std::span<const std::byte> bytes) = 0;
  /// On a headed lane the message may be smaller than `bytes`, never larger; on a bare one it is of that size. On a
  /// body lane it is, or none comes, or it fails: a library that cannot refuse messages of another size must tell lanes
  /// of unlike size apart.
  virtual std::unique_ptr<Transfer> receive(int from, const Lane& lane, std::span<std::byte> bytes) = 0;
  virtual void interrupt() = 0;
};

std::unique_ptr<Transport> make_headed_transport(std::unique_ptr<Wire> wire);

}  // namespace yoke::comm
