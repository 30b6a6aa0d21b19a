// How fast a group's links are: all-reduces and messages of growing size, timed on real ranks. Every rank of the group
// makes the same calls and gets the same answer.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/comm/group.h"
#include "yoke/comm/probe/link_fit.h"

namespace yoke::comm {

struct ProbeOptions {
  std::vector<std::size_t> sizes;  // bytes, ascending, multiples of 4; at least two
  /// For all sizes together. Each size gets its share; what is fast leaves more to the others. At least kLeastRepeats
  /// repetitions are made of every size that is begun; one that would not fit any more is left out, and so are those
  /// above it.
  base::Duration budget = std::chrono::seconds(10);
  /// For any single op.
  base::Duration patience = std::chrono::seconds(60);
};
inline constexpr int kLeastRepeats = 5;
inline constexpr int kMostRepeats = 300;

/// 4 KB to 100 MB (of 1024), a factor of about 4 apart.
std::vector<std::size_t> usual_probe_sizes();

struct LinkProbe {
  std::string backend;  // that the group runs on
  int ranks = 1;
  std::vector<LinkSample> samples;    // ascending in size
  std::vector<std::size_t> left_out;  // sizes for which the budget did not last
  LinkFit fit;
  /// What the processor of a rank spends on the largest size, per byte that it sends or receives; of an all-reduce, per
  /// byte that is reduced. Absent where ranks are threads of one process, whose times cannot be told apart.
  std::optional<double> processor_seconds_per_byte;
  bool operator==(const LinkProbe&) const = default;
};

/// All-reduces of f32 by all ranks; a repetition takes as long as its slowest rank. Precondition: two ranks or more.
base::Result<LinkProbe> probe_all_reduce(Group& group, const ProbeOptions& options, const base::Clock& clock);

/// Messages between two ranks of the group: half of the way there and back. Other ranks wait for the result.
base::Result<LinkProbe> probe_messages(Group& group, int one, int other, const ProbeOptions& options,
                                       const base::Clock& clock);

}  // namespace yoke::comm
