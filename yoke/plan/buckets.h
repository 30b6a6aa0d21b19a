// Cutting a model's gradients into buckets, each reduced by one all-reduce as soon as the backward pass has filled it.
// One pure function for planner, simulator and engine, so that what is priced is what runs. Plain values: any thread.
//
// Buckets are filled in backward order, from the last parameter to the first. The first bucket is small, so that
// communication starts early; a parameter is never split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/base/units.h"
#include "yoke/profile/profile.h"

namespace yoke::plan {

struct Parameter {
  std::string name;  // for messages
  std::int64_t elements = 0;
  bool operator==(const Parameter&) const = default;
};

/// The parameter that reaches a cap is the last of its bucket, as in PyTorch DDP, whose users know their buckets: they
/// may be larger than the cap (30 MiB among those of ResNet-50).
struct BucketOptions {
  base::Bytes first_cap{1 << 20};  // of the first bucket
  base::Bytes cap{25 << 20};       // of all others
  std::int64_t element_bytes = 4;  // 1, 2, 4 or 8
};

/// Each parameter begins at a multiple of this many bytes in its bucket: a cache line, and the widest vector there is.
inline constexpr std::int64_t kBucketAlignment = 64;

/// Where a parameter lies in its bucket, in elements.
struct BucketSlot {
  std::size_t parameter = 0;  // index into the list that was cut
  std::int64_t offset = 0;
  std::int64_t elements = 0;
  bool operator==(const BucketSlot&) const = default;
};

struct Bucket {
  std::vector<BucketSlot> slots;  // in backward order
  std::int64_t elements = 0;      // of the flat buffer: with the gaps between slots and up to the next multiple
  base::Bytes bytes;              // of the parameters alone: what caps and profiles count
  bool operator==(const Bucket&) const = default;
};

/// The buckets in the order the backward pass fills them; each has at least one byte. `parameters` are in forward
/// order. A parameter without elements is kept in the bucket of its neighbour. Fails for caps below 1 byte, another
/// width, a negative size, a list without any element, or sizes beyond 2^62 bytes.
base::Result<std::vector<Bucket>> cut_into_buckets(std::span<const Parameter> parameters,
                                                   const BucketOptions& options = {});

/// The sizes as profiles have them.
profile::BucketProfile to_profile(std::span<const Bucket> buckets);

}  // namespace yoke::plan
