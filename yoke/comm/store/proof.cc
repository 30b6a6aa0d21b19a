#include "yoke/comm/store/proof.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>

#include "yoke/base/error.h"
#include "yoke/base/sha256.h"

namespace yoke::comm {
namespace {

constexpr std::size_t kBlock = 64;  // bytes that SHA-256 takes at a time

/// Two digits a byte, as sha256() gives them, back into bytes.
std::string bytes_of(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::string padded(const std::string& key, char with) {
  std::string block = key;
  block.resize(kBlock, '\0');
  for (char& c : block) c = static_cast<char>(c ^ with);
  return block;
}

std::string proof(std::string_view token, std::string_view side, std::string_view from_client,
                  std::string_view from_server) {
  return hmac_sha256(token, fmt::format("yoke store {}\n{}\n{}", side, from_client, from_server));
}

}  // namespace

std::string hmac_sha256(std::string_view key, std::string_view message) {
  const std::string short_key = key.size() > kBlock ? bytes_of(base::sha256(key)) : std::string(key);
  const std::string inner = bytes_of(base::sha256(padded(short_key, 0x36) + std::string(message)));
  return base::sha256(padded(short_key, 0x5c) + inner);
}

std::string client_proof(std::string_view token, std::string_view from_client, std::string_view from_server) {
  return proof(token, "client", from_client, from_server);
}

std::string server_proof(std::string_view token, std::string_view from_client, std::string_view from_server) {
  return proof(token, "server", from_client, from_server);
}

bool same_proof(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i) difference |= static_cast<unsigned char>(one[i] ^ other[i]);
  return difference == 0;
}

std::string random_text() {
  std::array<unsigned char, 16> bytes{};
  base::require(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "getrandom");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace yoke::comm
