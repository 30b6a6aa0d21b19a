// Measures a model on a device, by real training steps of the engine, and keeps what it finds in a profile folder
// (docs/formats/profile.md). What was measured before is kept, so an interrupted profiling goes on. This header is free
// of torch, so that `cli` can use it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/engine/rank.h"
#include "yoke/plan/job.h"
#include "yoke/profile/layer_graph.h"
#include "yoke/profile/profile.h"

namespace yoke::profiler {

/// What is measured, and where.
struct Subject {
  plan::Job job;  // model, data, optimizer, precision and seed count
  engine::DeviceSpec device;
};

enum class Part { kMemory, kCompute, kLayers, kBuckets };

struct Request {
  Subject subject;
  std::set<Part> parts;
  std::string out;          // profile folder
  std::vector<int> lbs;     // local batch sizes, ascending; empty: those with a memory profile
  int search_up_to = 0;     // beyond the last of `lbs`: doubles it, then looks for the largest that fits; 0: does not
  int most_vsw = 32;        // workers at once that are tried for memory
  int compute_vsw = 4;      // and for times
  base::Duration budget{};  // for everything but the pause; every number is measured once, however long that takes
  base::Duration pause{};   // before the measurements of a device
  bool again = false;       // measure also what the folder holds
};

/// What a step under a limit came to.
struct Trial {
  bool fits = false;
  std::int64_t peak_bytes = 0;  // if it fits
};

/// Other processes, which the caller starts. Any error of kind kPeer says that one could not be run.
class Helpers {
 public:
  virtual ~Helpers() = default;
  /// try_steps() in a process of its own.
  virtual base::Result<Trial> try_steps(const Subject& subject, int lbs, int vsw, std::int64_t memory_bytes) = 0;
  /// While the result lives, the other devices of this machine train beside, as they will in a run: what devices share
  /// (cores, memory) is shared while measuring. Null where there are none.
  virtual base::Result<std::shared_ptr<void>> keep_company(const Subject& subject, int lbs) = 0;
};

/// Told and asked between two measurements, by the thread that called measure().
class Observer {
 public:
  virtual ~Observer() = default;
  /// `done` of `total` pieces of work; `next` is what comes now.
  virtual void on_progress(int done, int total, const std::string& next) = 0;
  /// What the user should know: something noisy, capped or left out.
  virtual void on_note(const std::string& note) = 0;
  virtual bool stop_requested() = 0;
};

/// What the folder holds of this node now.
struct Report {
  std::string model;
  profile::NodeProfile node;
  std::vector<int> asked;          // local batch sizes that this call was about
  profile::BucketProfile buckets;  // empty: not asked for
  std::string sync;                // recommended for these buckets
  std::string sync_reason;
  std::map<int, profile::LayerGraph> layers;  // by local batch size, if asked for
  int measured = 0;                           // numbers that were measured now
  int kept = 0;                               // that were there
  bool interrupted = false;
  double seconds = 0;
};

/// Errors: kInput for a model, data set or folder that does not do (a folder of another model, node, device or setup is
/// refused; a model that fails is blamed on its block), kInfeasible when not one worker of any local batch size fits
/// the device's memory.
base::Result<Report> measure(const Request& request, Helpers& helpers, Observer& observer, const base::Clock& clock);

/// Two steps of `vsw` workers at once, whose activations are all there at one moment, with tensors of this process
/// limited to `memory_bytes` from now on.
base::Result<Trial> try_steps(const Subject& subject, int lbs, int vsw, std::int64_t memory_bytes,
                              const base::Clock& clock);

/// Trains and trains; returns only with an error. For keep_company().
base::Status keep_busy(const Subject& subject, int lbs, const base::Clock& clock);

}  // namespace yoke::profiler
