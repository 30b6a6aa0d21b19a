// Messages between ranks: what local, gloo and mpi implement, and all that collectives need (message_backend.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "yoke/comm/backend.h"

namespace yoke::comm {

/// Collectives and the caller's messages do not see each other.
enum class Channel : std::uint8_t { kCollective, kMessage };

/// Messages between two ranks on one (channel, tag) arrive in the order sent. Functions may be called from any thread.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;

  /// Starts sending; the bytes must stay until the transfer is waited for. A message with a signature must be received
  /// with one, and one without, without.
  virtual std::unique_ptr<Transfer> send(int to, Channel channel, std::uint32_t tag, const Signature* signature,
                                         std::span<const std::byte> bytes) = 0;
  /// Starts receiving. With a signature, one that differs from the sender's is kMismatch, and what `bytes` holds then
  /// is unspecified. Without one, the size of the message is known to be that of `bytes`. The message arrives whether
  /// it is waited for or not.
  virtual std::unique_ptr<Transfer> receive(int from, Channel channel, std::uint32_t tag, const Signature* signature,
                                            std::span<std::byte> bytes) = 0;
  virtual void interrupt() = 0;
};

}  // namespace yoke::comm
