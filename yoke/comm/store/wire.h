// What a TCP store's client and server say to each other: a length, then a request or a reply. Numbers are
// little-endian. Decoding trusts nothing: any bytes give a value or nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::comm {

enum class StoreCommand : std::uint8_t {
  kSet,
  kGet,
  kAdd,
  kAppend,
  kRead,
  kLeaveWill,
  kWithdrawWill,
  kHello,  // `value` is a random text; the answer is the server's
  kProve,  // `value` shows that the client knows the token; the answer shows that the server does
};
inline constexpr StoreCommand kLastStoreCommand = StoreCommand::kProve;

struct StoreRequest {
  StoreCommand command = StoreCommand::kSet;
  std::int64_t number = 0;  // the amount to add; the index to read from
  std::int64_t wait_ms = 0;
  std::string key;
  std::string value;
  bool operator==(const StoreRequest&) const = default;
};

struct StoreReply {
  bool found = true;  // false: the wait ended without anything to tell
  std::int64_t number = 0;
  std::vector<std::string> values;
  bool operator==(const StoreReply&) const = default;
};

/// No frame is larger: garbage on the port must not make us allocate what it asks for.
inline constexpr std::size_t kLargestFrame = 16U << 20U;

/// The whole frame, length included.
std::string encode(const StoreRequest& request);
std::string encode(const StoreReply& reply);
/// `frame` is without its length.
std::optional<StoreRequest> decode_request(std::string_view frame);
std::optional<StoreReply> decode_reply(std::string_view frame);

/// Takes the first whole frame off the front of `buffer`. Nothing yet: nullopt. Sets `garbage` when the length is
/// beyond all reason.
std::optional<std::string> take_frame(std::string& buffer, bool& garbage);

}  // namespace yoke::comm
