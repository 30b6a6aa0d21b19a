// What comes ahead of tensors is a peer's word: it may ask for what there cannot be.
#include "yoke/engine/flow_mail.h"

#include <gmock/gmock.h>

#include <array>

#include "tests/engine/ranks.h"
#include "yoke/engine/flow_header.h"

namespace yoke::engine {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

/// What rank 0 gets when rank 1 announces this tensor as the activations of worker 0.
base::Result<std::vector<Crossing>> announced(const FlowHeader::Entry& entry) {
  const auto store = comm::make_memory_store();
  base::Result<std::vector<Crossing>> taken = std::vector<Crossing>();
  testing::in_threads(2, [&](int rank) {
    const auto group = testing::join_ranks(*store, "g", rank, 2);
    const auto soon = [] { return base::Deadline::in(30s, testing::test_clock()); };
    if (rank == 1) {
      constexpr std::uint32_t kTag = 0x100;  // of headers of activations
      std::array<std::byte, 4096> header{};
      ASSERT_TRUE(encode({.entries = {entry}}, header).ok());
      EXPECT_TRUE(group->run(comm::send(header.data(), header.size(), comm::DType::kU8, 0, kTag), soon()).ok());
      EXPECT_FALSE(group->run(comm::barrier(), soon()).ok()) << "rank 0 has given up";
      return;
    }
    const auto device = tensor::make_cpu_device(1);
    FlowMail mail(*group, *device, testing::test_clock());
    mail.begin({{.peer = 1}}, {}, soon);
    taken = mail.take({.peer = 1});
  });
  return taken;
}

TEST(FlowMail, ATensorThatCannotBeMadeIsAPeersFault) {
  const auto number = [](torch::ScalarType type) { return static_cast<std::int8_t>(type); };
  for (const FlowHeader::Entry& entry :
       {FlowHeader::Entry{.name = "quantised", .type = number(torch::kQInt8), .shape = {2}},
        FlowHeader::Entry{.name = "undefined", .type = number(torch::ScalarType::Undefined), .shape = {2}},
        FlowHeader::Entry{.name = "unknown", .type = 127, .shape = {2}}}) {
    const auto refused = announced(entry);
    ASSERT_FALSE(refused.ok()) << entry.name;
    EXPECT_EQ(refused.error().kind, base::ErrorKind::kPeer) << entry.name;
    EXPECT_THAT(refused.error().message, HasSubstr("rank 1 sends a tensor")) << entry.name;
  }
}

}  // namespace
}  // namespace yoke::engine
