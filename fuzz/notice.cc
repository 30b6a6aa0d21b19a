#include "yoke/comm/notice.h"

#include <vector>

#include "fuzz/fuzz.h"
#include "yoke/base/text.h"

/// What ranks tell each other when something is wrong, a notice a line, and what a rank concludes from it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const comm::Membership members{.name = "g", .rank = 0, .size = 3, .labels = {"a pid 1", "b pid 2", "c pid 3"}};
  std::vector<comm::Notice> notices;
  for (const std::string_view line : base::split(fuzz::text_of(data, size), "\n")) {
    const auto notice = comm::decode_notice(line, members.size);
    if (!notice) continue;
    fuzz::expect(comm::decode_notice(comm::encode(*notice), members.size) == notice, "a notice does not read back");
    notices.push_back(*notice);
  }
  for (const bool enough : {false, true}) {
    const auto verdict = comm::decide(notices, members, enough);
    if (!verdict) continue;
    fuzz::expect(!verdict->cause.empty(), "a verdict without a cause");
    fuzz::expect_one_line(verdict->cause);
    for (const int rank : verdict->ranks) fuzz::expect(rank >= 0 && rank < members.size, "blames " + verdict->cause);
  }
  return 0;
}
