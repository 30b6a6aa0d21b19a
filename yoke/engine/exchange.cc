#include "yoke/engine/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "yoke/base/difference.h"
#include "yoke/base/sha256.h"
#include "yoke/engine/collectives.h"

namespace yoke::engine {
namespace {

const Holding* holder_of(const Standing& standing, std::size_t block) {
  if (standing.before != nullptr && standing.before->range().contains(block)) return standing.before;
  if (standing.now->range().contains(block) && standing.fresh) return standing.now;
  return nullptr;
}

}  // namespace

base::Status same_plan(const plan::Plan& plan, comm::Group& group, const base::Deadline& deadline) {
  if (group.size() == 1) return {};
  const std::string text = plan::to_json(plan);
  const std::string hash = base::sha256(text);
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(group.size()));
  const auto at = 2 * static_cast<std::size_t>(group.rank());
  std::memcpy(&all[at], hash.data(), sizeof(std::int64_t));
  all[at + 1] = static_cast<std::int64_t>(text.size());
  YOKE_CHECK(group.run(comm::all_gather(std::span(all)), deadline));
  for (int rank = 1; rank < group.size(); ++rank) {
    const auto other = 2 * static_cast<std::size_t>(rank);
    if (all[other] == all[0] && all[other + 1] == all[1]) continue;
    std::array<std::string, 2> texts;
    for (const int side : {0, 1}) {
      const int root = side == 0 ? 0 : rank;
      auto& copy = texts[static_cast<std::size_t>(side)];
      copy = group.rank() == root ? text : std::string(static_cast<std::size_t>(all[root == 0 ? 1 : other + 1]), ' ');
      YOKE_CHECK(group.run(
          comm::broadcast(reinterpret_cast<std::byte*>(copy.data()), copy.size(), comm::DType::kU8, root), deadline));
    }
    return base::input_error(
        fmt::format("ranks 0 and {} were given different plans; the first difference: {}; expected one plan file on "
                    "all hosts",
                    rank, base::first_difference(texts[0], texts[1])));
  }
  return {};
}

base::Status agree(const Standing& standing, std::vector<std::int64_t>& numbers, std::size_t blocks, comm::Group& group,
                   const base::Deadline& deadline) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto self = static_cast<std::size_t>(group.rank());
  // Of each rank: steps, how many numbers, their hash; then of every block: whether the rank holds it from now on,
  // the fingerprint of the state it has (0: none that counts), and the bytes of that state.
  constexpr std::size_t kHead = 3;
  const std::size_t fields = kHead + 3 * blocks;
  std::vector<std::int64_t> all(ranks * fields);
  std::int64_t* own = all.data() + self * fields;
  own[0] = standing.steps;
  own[1] = static_cast<std::int64_t>(numbers.size());
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const auto number : numbers) hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x100000001b3U;
  own[2] = static_cast<std::int64_t>(hash);
  for (std::size_t block = 0; block < blocks; ++block) {
    const Holding* has = holder_of(standing, block);
    std::int64_t* news = own + kHead + 3 * block;
    news[0] = standing.now->range().contains(block) ? 1 : 0;
    news[1] = has != nullptr ? has->fingerprint(block) : 0;
    news[2] = has != nullptr ? has->packed_bytes(block) : 0;
  }
  YOKE_CHECK(group.run(comm::all_gather(std::span(all)), deadline));

  std::size_t source = 0;
  bool same = true;
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    if (all[rank * fields] > all[source * fields]) source = rank;
    same = same && std::equal(&all[rank * fields], &all[rank * fields + kHead], all.data());
  }
  const std::int64_t most = all[source * fields];
  if (!same) {
    numbers.resize(static_cast<std::size_t>(all[source * fields + 1]));
    YOKE_CHECK(group.run(comm::broadcast(std::span(numbers), static_cast<int>(source)), deadline));
  }

  for (std::size_t block = 0; block < blocks; ++block) {
    const auto news = [&](std::size_t rank, std::size_t field) {
      return all[rank * fields + kHead + 3 * block + field];
    };
    std::size_t from = ranks;
    bool missing = false;
    for (std::size_t rank = 0; rank < ranks && from == ranks; ++rank) {
      if (all[rank * fields] == most && news(rank, 1) != 0) from = rank;
    }
    if (from == ranks) {
      return base::peer_error(fmt::format("no rank has the newest state of block {}; resume from a checkpoint", block));
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      missing = missing || (news(rank, 0) == 1 && (all[rank * fields] != most || news(rank, 1) != news(from, 1)));
    }
    const bool wanted = standing.now->range().contains(block);
    const Holding* has = holder_of(standing, block);
    if (missing) {
      auto bytes = from == self ? has->pack(block) : torch::empty({news(from, 2)}, torch::kByte);
      YOKE_CHECK(broadcast(bytes, static_cast<int>(from), group, deadline));
      if (wanted) standing.now->unpack(block, bytes);
    } else if (wanted && has != standing.now) {
      standing.now->unpack(block, has->pack(block));
    }
  }
  return {};
}

base::Status gather_blocks(const Holding& holding, std::size_t blocks,
                           const std::function<int(std::size_t block)>& owner_of,
                           const std::function<base::Status(std::size_t block, const torch::Tensor& packed)>& take,
                           comm::Group& group, const base::Deadline& deadline) {
  constexpr std::uint32_t kTag = 0x110;
  for (std::size_t block = 0; block < blocks; ++block) {
    const int owner = owner_of(block);
    if (owner == 0) continue;
    if (group.rank() == owner) {
      const auto packed = holding.pack(block);
      std::int64_t count = packed.numel();
      YOKE_CHECK(group.run(comm::send(std::span<const std::int64_t>(&count, 1), 0, kTag), deadline));
      const auto bytes = bytes_of(packed);
      if (count > 0) {
        YOKE_CHECK(group.run(comm::send(bytes.data(), bytes.size(), comm::DType::kU8, 0, kTag), deadline));
      }
    } else if (group.rank() == 0) {
      std::int64_t count = 0;
      YOKE_CHECK(group.run(comm::receive(std::span(&count, 1), owner, kTag), deadline));
      const auto packed = torch::empty({count}, torch::kByte);
      const auto bytes = bytes_of(packed);
      if (count > 0) {
        YOKE_CHECK(group.run(comm::receive(bytes.data(), bytes.size(), comm::DType::kU8, owner, kTag), deadline));
      }
      YOKE_CHECK(take(block, packed));
    }
  }
  return {};
}

}  // namespace yoke::engine
