// What was measured of one model on the nodes of a cluster: memory limits, compute times, gradient buckets and
// all-reduce times. Plain values with equality. Times are milliseconds as profilers write them, so that a file read and
// written back keeps every digit; the cost model turns them into seconds once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/base/units.h"
#include "yoke/profile/confidence.h"
#include "yoke/profile/source.h"

namespace yoke::profile {

/// Typical times of one step of `vsw` virtual workers running at once on one device.
struct ComputeSample {
  int vsw = 1;
  double total_ms = 0;
  double data_ms = 0;  // loading and moving the batch to the device
  double forward_ms = 0;
  double backward_ms = 0;
  double update_ms = 0;                           // the optimizer step
  double copy_ms = 0;                             // copying the weights to the other vsw - 1 workers
  double bn_sync_ms = 0;                          // synchronising BatchNorm buffers among the workers
  std::optional<double> round_ms = std::nullopt;  // what another round of accumulation adds to a step
  std::optional<Confidence> confidence = std::nullopt;

  bool operator==(const ComputeSample&) const = default;
};

/// Where the memory of a device goes, in bytes.
struct MemoryParts {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t buffers = 0;   // running statistics and the like
  std::int64_t worker = 0;    // what each worker that runs at once adds: activations, and samples waiting for it
  std::int64_t passes = 0;    // what passes take beyond that, however many workers run
  std::int64_t building = 0;  // the most that was taken before the first step
  bool verified = false;      // steps ran with the most workers within the limit, and one more was refused
  bool capped = false;        // more workers may fit than were tried

  bool operator==(const MemoryParts&) const = default;
};

/// Everything measured on one node at one local batch size.
struct LocalBatchProfile {
  std::optional<int> max_vsw;               // the largest number of workers that fits the device's memory
  std::optional<base::Bytes> total_memory;  // of the device, as the profiler saw it
  std::vector<ComputeSample> compute;       // ascending in vsw, no vsw twice
  std::optional<MemoryParts> memory = std::nullopt;

  bool operator==(const LocalBatchProfile&) const = default;
};

struct NodeProfile {
  std::string node;
  std::string device_type;
  std::map<int, LocalBatchProfile> by_lbs;  // local batch size -> measurements
  Source source = Source::kMeasured;
  std::string setup = {};  // what else they hold for: shape, optimizer, threads; empty: not said

  bool operator==(const NodeProfile&) const = default;
};

/// Sizes of the gradient buckets in the order the backward pass fills them (last entry: reduced last), in MiB.
struct BucketProfile {
  std::vector<double> mebibytes;
  bool operator==(const BucketProfile&) const = default;
};

/// One all-reduce: the time its bytes need at the nominal bandwidth, 4 (n-1)/n bytes/bandwidth, and the time measured.
struct CommPoint {
  double ideal_ms = 0;
  double measured_ms = 0;
  std::optional<std::int64_t> bytes = {};  // that were reduced
  std::optional<double> spread_ms = {};    // between the quarters of the repetitions
  bool operator==(const CommPoint&) const = default;
};

/// One size on one link: the median of its repetitions and what lies between their quarters.
struct LinkPoint {
  std::int64_t bytes = 0;
  double median_ms = 0;
  double spread_ms = 0;
  int repeats = 1;
  bool operator==(const LinkPoint&) const = default;
};

enum class LinkScope { kIntra, kInter };
enum class LinkOp { kAllReduce, kMessage };

/// What one backend does on one link, and the line through it: latency + bytes / bandwidth.
struct LinkProfile {
  LinkScope scope = LinkScope::kIntra;
  LinkOp op = LinkOp::kAllReduce;
  std::string backend = {};
  int ranks = 2;
  std::vector<std::string> between = {};  // the hosts of a message; may be empty
  double latency_ms = 0;
  base::Bandwidth bandwidth = {};
  double error = 0;  // the mean share by which the line misses the points
  std::vector<LinkPoint> points = {};
  /// What moving bytes takes from a processor that has passes to compute: per byte sent or received, of an all-reduce
  /// per byte reduced. Absent: not known.
  std::optional<double> processor_seconds_per_byte = {};
  bool operator==(const LinkProfile&) const = default;
};

struct CommProfile {
  std::vector<CommPoint> intra;  // among the devices of one node
  std::vector<CommPoint> inter;  // across nodes
  // What the ideal times were computed with; absent: not known.
  std::optional<base::Bandwidth> intra_bandwidth = {};
  std::optional<base::Bandwidth> inter_bandwidth = {};
  std::vector<LinkProfile> links = {};
  Source source = Source::kMeasured;
  bool operator==(const CommProfile&) const = default;
};

/// All measurements of one model.
struct ProfileSet {
  std::string model;
  std::vector<NodeProfile> nodes;
  BucketProfile buckets;
  CommProfile comm;

  /// nullptr when the node was not profiled.
  const NodeProfile* find(std::string_view node) const;
  /// Local batch sizes measured on at least one node, ascending.
  std::vector<int> local_batch_sizes() const;
  /// Names of the nodes whose figures are estimates.
  std::vector<std::string> estimated_nodes() const;
  /// An estimate as soon as anything in it is one.
  Source source() const;
  bool operator==(const ProfileSet&) const = default;
};

/// Finite, not negative, in order, no node or vsw twice. `where.file` is put into the message.
base::Status validate(const ProfileSet& profiles, const base::Where& where = {});
base::Status validate(const NodeProfile& node, const base::Where& where = {});
base::Status validate(const CommProfile& comm, const base::Where& where = {});

}  // namespace yoke::profile
