// The job file: what to train, on what data, how. A plain value; `yoke run` reads it, importers write it, the planner
// and the engine are given parts of it. docs/formats/job.md is the reference of its keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "yoke/base/document.h"
#include "yoke/base/result.h"

namespace yoke::plan {

struct ModelSpec {
  std::string name;
  std::optional<std::int64_t> classes;  // absent: what the data set says
  std::string path;                     // `torchscript`: the file; `replay`: the layer profile
  double time_scale = 1;                // `replay`: of the profiled times
  double size_scale = 1;                // `replay`: of the profiled activations and parameters
  std::optional<double> dropout;        // of all dropout layers; absent: the model's own
  std::string weights;                  // safetensors file to start from; empty: random
  bool operator==(const ModelSpec&) const = default;
};

/// What to do with an image that cannot be decoded.
enum class CorruptPolicy { kStop, kSkip };

struct DataSpec {
  std::string name;
  std::string path;                     // empty: where the data set's package puts it
  std::optional<std::int64_t> limit;    // only the first so many samples
  std::vector<std::int64_t> shape;      // `synthetic`: of one sample, e.g. [3, 224, 224]
  std::optional<std::int64_t> classes;  // `synthetic`: how many
  std::int64_t image = 224;             // image folders: side of what the model sees
  std::int64_t resize = 256;            // image folders: shorter side before the centre crop
  CorruptPolicy corrupt = CorruptPolicy::kStop;
  std::int64_t threads = 1;  // that prepare samples, for each device
  bool operator==(const DataSpec&) const = default;
};

enum class AdaptPolicy { kSimilarity };
enum class LrRule { kSqrt, kLinear, kNone };

/// How the global batch follows the gradients.
struct AdaptSpec {
  AdaptPolicy policy = AdaptPolicy::kSimilarity;
  double target = 0.1;          // cosine similarity to hold
  double rate = 0.1;            // share by which the batch grows or shrinks
  std::int64_t interval = 100;  // steps between two looks
  LrRule lr_rule = LrRule::kSqrt;
  bool operator==(const AdaptSpec&) const = default;
};

struct BatchSpec {
  std::int64_t global = 0;
  std::vector<std::int64_t> local;  // sizes to choose from; empty: all that were profiled
  std::optional<std::int64_t> min;
  std::optional<std::int64_t> max;
  std::optional<AdaptSpec> adapt;  // absent: the batch stays
  bool operator==(const BatchSpec&) const = default;
};

enum class OptimizerName { kSgd, kAdam, kAdamW, kLamb };

struct OptimizerSpec {
  OptimizerName name = OptimizerName::kSgd;
  double lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 0;
  bool nesterov = false;
  double beta1 = 0.9;  // of adam, adamw and lamb; `betas: [0.9, 0.999]` in the file
  double beta2 = 0.999;
  double eps = 1e-8;
  bool decay_all = false;  // false: no decay on biases and norms
  double clip_norm = 0;    // 0: no clipping
  double clip_value = 0;   // 0: no clipping
  bool operator==(const OptimizerSpec&) const = default;
};

enum class LrPolicy { kConstant, kStep, kMultistep, kCosine, kPolynomial, kExponential };

struct LrSpec {
  LrPolicy policy = LrPolicy::kConstant;
  std::vector<std::int64_t> milestones;  // epochs, ascending; for `multistep`, and for `step` instead of `every`
  std::int64_t every = 30;               // epochs; for `step`
  double gamma = 0.1;                    // for `step` and `multistep`, and for `exponential` for each epoch
  double power = 1;                      // for `polynomial`
  double end = 0;                        // what `cosine` and `polynomial` go down to
  std::int64_t warmup_steps = 0;
  double warmup_from = 0;  // share of the rate that the first step of the warm-up has
  bool operator==(const LrSpec&) const = default;
};

enum class ParallelMode { kAuto, kData, kPipeline };
enum class SyncChoice { kRecommend, kOverlap, kSequential };

struct ParallelSpec {
  ParallelMode mode = ParallelMode::kAuto;
  std::string schedule;  // empty: the planner's choice
  SyncChoice sync = SyncChoice::kRecommend;
  std::string plan;  // a plan file to run as it is; empty: plan anew
  bool operator==(const ParallelSpec&) const = default;
};

enum class Precision { kFp32, kBf16, kFp16 };
enum class ScaleObjective { kTime, kCost };

struct ScaleSpec {
  ScaleObjective objective = ScaleObjective::kTime;
  std::int64_t unit = 1;                   // devices that are taken or given back together
  std::optional<double> deadline_seconds;  // with objective cost
  std::optional<double> budget;            // dollars; with objective time
  bool operator==(const ScaleSpec&) const = default;
};

struct CheckpointSpec {
  std::int64_t every_steps = 500;
  std::int64_t keep = 3;
  bool operator==(const CheckpointSpec&) const = default;
};

struct Job {
  ModelSpec model;
  DataSpec data;
  BatchSpec batch;
  OptimizerSpec optimizer;
  LrSpec lr;
  double label_smoothing = 0;
  ParallelSpec parallel;
  Precision precision = Precision::kFp32;
  std::int64_t epochs = 1;
  std::string profiles;  // folder; empty: measure at the start
  CheckpointSpec checkpoint;
  std::optional<ScaleSpec> scale;  // absent: the cluster stays
  bool reproducible = false;
  std::int64_t seed = 1;

  bool operator==(const Job&) const = default;
};

/// Unknown keys, wrong types and contradictions (min above global, milestones out of order, ...) are input errors with
/// file, line and field.
base::Result<Job> parse_job(std::string_view yaml, const std::string& file);
base::Result<Job> load_job(const std::string& path);
/// From a document that was read, and perhaps changed, before.
base::Result<Job> parse_job(const base::Document& document);
/// YAML that parses back to an equal job.
std::string to_yaml(const Job& job);

}  // namespace yoke::plan
