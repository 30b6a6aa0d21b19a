// What ranks of a group tell each other through its store when something is wrong, and what follows from it. Plain
// values and pure functions: any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/comm/backend.h"
#include "yoke/comm/group.h"

namespace yoke::comm {

enum class NoticeKind : std::uint8_t {
  kLost,     // the store says it for a rank that can no longer speak
  kLeft,     // closed its group in good order after `sequence` collectives
  kAborted,  // somebody there called abort(); `text` is the reason
  kTrouble,  // an op failed there
  kState,    // answer of a rank that has read of trouble elsewhere
};

struct Notice {
  NoticeKind kind = NoticeKind::kState;
  int rank = 0;
  std::uint64_t sequence = 0;                      // collectives this rank has called so far
  int peer = -1;                                   // whom it waits for, or in trouble whom it blames; -1: nobody
  Trouble::Kind trouble = Trouble::Kind::kBroken;  // of kTrouble
  bool message = false;                            // of kTrouble: a send or receive, not a collective
  std::string op;                                  // what it is doing: `all_reduce #7 of 100 f32 (sum)`; empty: nothing
  std::string text;                                // reason or detail

  bool operator==(const Notice&) const = default;
};

/// One line for the store's log.
std::string encode(const Notice& notice);
/// Nothing for a line that is not a notice between `size` ranks. What is not printable in its texts is escaped.
std::optional<Notice> decode_notice(std::string_view line, int size);

/// Who caused a failure and in which way: `rank 2 (node1 pid 4711) was lost: ...`.
struct Verdict {
  std::vector<int> ranks;
  std::string cause;
};

/// What the notices so far prove. Losses, aborts and disagreements speak for themselves; a rank that was kept waiting
/// can only tell whom it waited for, and that one may wait for a third, so the others' answers are needed: until every
/// rank has spoken the answer is nothing, unless `enough`, which counts those who have not as silent.
std::optional<Verdict> decide(std::span<const Notice> notices, const Membership& members, bool enough);

}  // namespace yoke::comm
