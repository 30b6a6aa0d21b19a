// How the two ends of a store's connection show each other that they know its token, without sending it.
#pragma once

#include <string>
#include <string_view>

namespace yoke::comm {

/// HMAC-SHA-256 (RFC 2104) in hexadecimal digits.
std::string hmac_sha256(std::string_view key, std::string_view message);

/// Both ends compute these of the two random texts they have exchanged.
std::string client_proof(std::string_view token, std::string_view from_client, std::string_view from_server);
std::string server_proof(std::string_view token, std::string_view from_client, std::string_view from_server);

/// Whether they are equal, in a time that does not depend on where they differ.
bool same_proof(std::string_view one, std::string_view other);

/// 32 hexadecimal digits from the kernel's random numbers: a token, or the text of one end.
std::string random_text();

}  // namespace yoke::comm
