// Prepares batches ahead of their use, in threads of its own. The engine orders the batches of coming steps and takes
// them when it gets there; an order that is no longer wanted is dropped with its ticket.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/base/rng.h"
#include "yoke/data/dataset.h"

namespace yoke::data {

struct Order {
  std::vector<std::int64_t> indices;
  std::optional<base::StreamName> draw;
};

/// A batch that was ordered. Destroyed before it was taken, the order is cancelled (or its result thrown away).
class Ticket {
 public:
  virtual ~Ticket() = default;
  /// Waits; at most once. Whatever loading threw comes back as an error; so does a deadline that passes. An order that
  /// has not begun is begun next, beyond the capacity if need be: taking in another order than ordering never locks up.
  virtual base::Result<Batch> take(const base::Deadline& deadline) = 0;
};

struct LoaderOptions {
  int threads = 1;            // at least 1
  std::size_t capacity = 16;  // batches that may lie ready or be in the making, at least 1; threads wait beyond that
};

/// One thread orders and takes. Orders are begun in the order given, but for what is waited for already.
/// The destructor waits for the batches in the making, and for nothing else; tickets may outlive the loader.
class Loader {
 public:
  /// `dataset` and `clock` must outlive the loader.
  Loader(const Dataset& dataset, const LoaderOptions& options, const base::Clock& clock);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Never blocks: what exceeds the capacity is begun when there is room.
  std::unique_ptr<Ticket> order(Order order);

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace yoke::data
