#include "yoke/cluster/hostfile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "yoke/base/text.h"
#include "yoke/base/units.h"

namespace yoke::cluster {
namespace {

using base::Error;
using base::input_error;
using base::quote;
using base::Result;

constexpr std::int64_t kMaxSlots = 1'000'000;

/// The parts of a line's first word: `user@host`, `host:8`, `[fe80::1]:4`.
struct HostWord {
  std::string host;
  std::string user;
  std::optional<std::string_view> slots;
};

class HostfileParser {
 public:
  explicit HostfileParser(const std::string& file) : file_(file) {}

  Result<ImportedCluster> parse(std::string_view text) {
    for (std::string_view line : base::split(text, "\n")) {
      ++line_;
      line = base::trim(line.substr(0, line.find('#')));
      if (!line.empty()) YOKE_CHECK(read_line(line));
    }
    if (nodes_.empty()) return input_error("found no host, expected lines such as `node0 slots=4`", {.file = file_});
    YOKE_TRY(Cluster cluster, Cluster::make(std::move(nodes_)));
    return ImportedCluster{std::move(cluster), std::move(ignored_)};
  }

 private:
  Error fail(std::string message) const { return input_error(std::move(message), {.file = file_, .line = line_}); }

  base::Status read_line(std::string_view line) {
    const auto word_end = std::min(line.find_first_of(" \t"), line.size());
    YOKE_TRY(const HostWord word, read_host(line.substr(0, word_end)));
    std::optional<std::int64_t> slots;
    std::optional<std::int64_t> max_slots;
    if (word.slots) {
      YOKE_TRY(slots, read_count("slots", *word.slots));
    }
    std::string_view rest = base::trim(line.substr(word_end));
    while (!rest.empty()) {
      YOKE_TRY(const auto option, take_option(&rest));
      auto* target = option.first == "slots" ? &slots : &max_slots;
      if (*target) return fail(fmt::format("the {} of host {} are given twice", option.first, quote(word.host)));
      YOKE_TRY(*target, read_count(option.first, option.second));
    }
    if (max_slots && *max_slots < slots.value_or(1)) {
      return fail(fmt::format("found max_slots {} below slots {}", *max_slots, slots.value_or(1)));
    }
    if (max_slots) ignored_.push_back(fmt::format("{}:{}: max_slots={} of {}", file_, line_, *max_slots, word.host));
    return add(word, slots.value_or(1));
  }

  Result<HostWord> read_host(std::string_view text) const {
    const auto malformed = [&] {
      return fail(fmt::format("found {}, expected a host such as `node0`, `node0:4`, `user@node0` or `[fe80::1]:4`",
                              quote(text)));
    };
    HostWord word;
    std::string_view host = text;
    if (const auto at = host.find('@'); at != std::string_view::npos) {
      word.user = std::string(host.substr(0, at));
      host.remove_prefix(at + 1);
      if (word.user.empty()) return malformed();
    }
    if (host.starts_with('[')) {
      const auto close = host.find(']');
      if (close == std::string_view::npos) return malformed();
      const std::string_view after = host.substr(close + 1);
      if (!after.empty() && !after.starts_with(':')) return malformed();
      if (!after.empty()) word.slots = after.substr(1);
      host = host.substr(1, close - 1);
      // Brackets are for IPv6 addresses; `[a:4]` would be read as four slots when written without them.
      if (std::count(host.begin(), host.end(), ':') < 2) return malformed();
    } else if (std::count(host.begin(), host.end(), ':') == 1) {
      // More colons than one are an IPv6 address.
      const auto colon = host.find(':');
      word.slots = host.substr(colon + 1);
      host = host.substr(0, colon);
    }
    const auto allowed = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("._-:%").find(c) != std::string::npos;
    };
    if (host.empty() || !std::all_of(host.begin(), host.end(), allowed) ||
        !std::all_of(word.user.begin(), word.user.end(), allowed)) {
      return malformed();
    }
    word.host = std::string(host);
    return word;
  }

  /// Takes `name = value` off the front of `rest`.
  Result<std::pair<std::string, std::string_view>> take_option(std::string_view* rest) const {
    const std::string_view all = *rest;
    const auto equals = all.find('=');
    const auto name = std::string(base::trim(all.substr(0, equals)));
    const std::vector<std::string> known{"slots", "max_slots", "max-slots"};
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return fail(fmt::format("found {}, expected slots=<number> or max_slots=<number>{}", quote(all),
                              base::did_you_mean(name, known)));
    }
    std::string_view value = equals == std::string_view::npos ? "" : base::trim(all.substr(equals + 1));
    const auto end = std::min(value.find_first_of(" \t"), value.size());
    *rest = base::trim(value.substr(end));
    return std::pair(name == "slots" ? name : "max_slots", value.substr(0, end));
  }

  Result<std::int64_t> read_count(const std::string& name, std::string_view text) const {
    const auto count = base::parse_integer(text);
    if (!count.ok() || *count < 1 || *count > kMaxSlots) {
      return fail(fmt::format("found {}={}, expected a whole number from 1 to {}", name, quote(text), kMaxSlots));
    }
    return *count;
  }

  base::Status add(const HostWord& word, std::int64_t slots) {
    const std::string address = word.user.empty() ? "" : word.user + "@" + word.host;
    const auto [found, is_new] = indices_.emplace(word.host, nodes_.size());
    if (is_new) {
      Node node{.name = word.host, .address = address, .devices = static_cast<int>(slots)};
      YOKE_CHECK(validate(node, {.file = file_, .line = line_}));
      nodes_.push_back(std::move(node));
      return {};
    }
    Node& node = nodes_[found->second];
    if (node.address != address) return fail(fmt::format("the host {} is given with two users", quote(word.host)));
    if (node.devices + slots > kMaxSlots) {
      return fail(fmt::format("the host {} has {} slots on all its lines, expected at most {}", quote(word.host),
                              node.devices + slots, kMaxSlots));
    }
    node.devices += static_cast<int>(slots);
    return {};
  }

  const std::string& file_;
  int line_ = 0;
  std::vector<Node> nodes_;
  std::unordered_map<std::string, std::size_t> indices_;
  std::vector<std::string> ignored_;
};

}  // namespace

Result<ImportedCluster> parse_hostfile(std::string_view text, const std::string& file) {
  return HostfileParser(file).parse(text);
}

std::string to_hostfile(const Cluster& cluster) {
  std::string text;
  for (const auto& node : cluster.nodes()) {
    text += fmt::format("{} slots={}\n", node.address.empty() ? node.name : node.address, node.devices);
  }
  return text;
}

}  // namespace yoke::cluster
