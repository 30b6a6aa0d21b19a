#include "yoke/plan/job.h"

#include <fmt/format.h>

#include <algorithm>

#include "yoke/base/files.h"
#include "yoke/base/text.h"

namespace yoke::plan {
namespace {

using base::kAny;
using base::kCount;
using base::kNotNegative;
using base::kPositive;
using base::Range;
using base::View;

// The spelling of each enum, in the order of its values: reading and writing share one list.
const std::vector<std::string> kCorruptPolicies{"stop", "skip"};
const std::vector<std::string> kAdaptPolicies{"similarity"};
const std::vector<std::string> kLrRules{"sqrt", "linear", "none"};
const std::vector<std::string> kOptimizers{"sgd", "adam", "adamw", "lamb"};
const std::vector<std::string> kLrPolicies{"constant", "step", "multistep", "cosine", "polynomial", "exponential"};
const std::vector<std::string> kModes{"auto", "data", "pipeline"};
const std::vector<std::string> kSyncs{"recommend", "overlap", "sequential"};
const std::vector<std::string> kPrecisions{"fp32", "bf16", "fp16"};
const std::vector<std::string> kObjectives{"time", "cost"};

/// A model of this name is a file, given as `path`.
constexpr std::string_view kTorchScript = "torchscript";
constexpr std::string_view kReplay = "replay";

/// Pixels; what codecs of images allow.
constexpr Range kSide{.least = 1, .most = 65535};
constexpr Range kShare{.least = 0, .most = 1};
constexpr Range kBelowOne{.least = 0, .most = 1, .most_excluded = true};

template <typename Enum>
Enum choice(View& map, const std::string& key, const std::vector<std::string>& names, Enum fallback) {
  auto view = map.find(key);
  return view ? static_cast<Enum>(view->one_of(names)) : fallback;
}

template <typename Enum>
const std::string& spelled(const std::vector<std::string>& names, Enum value) {
  return names[static_cast<std::size_t>(value)];
}

std::optional<std::int64_t> optional_count(View& map, const std::string& key) {
  auto view = map.find(key);
  if (!view) return std::nullopt;
  return view->integer(kCount);
}

std::vector<std::int64_t> counts(View list) {
  std::vector<std::int64_t> values;
  for (auto& item : list.items()) values.push_back(item.integer(kCount));
  return values;
}

ModelSpec read_model(View view) {
  ModelSpec model;
  model.name = view.field("name").text();
  model.classes = optional_count(view, "classes");
  model.path = view.text_or("path", "");
  model.weights = view.text_or("weights", "");
  if (auto dropout = view.find("dropout")) model.dropout = dropout->number(kBelowOne);
  model.time_scale = view.number_or("time_scale", model.time_scale, kNotNegative);
  model.size_scale = view.number_or("size_scale", model.size_scale, kNotNegative);
  if (model.name == kTorchScript && model.path.empty()) {
    view.fail("found model `torchscript` without `path`, expected the path of a TorchScript file");
  }
  if (model.name == kReplay && model.path.empty()) {
    view.fail("found model `replay` without `path`, expected a layer profile (layers.json or graph.txt)");
  }
  view.done();
  return model;
}

DataSpec read_data(View view) {
  DataSpec data;
  data.name = view.field("name").text();
  data.path = view.text_or("path", "");
  data.limit = optional_count(view, "limit");
  if (auto shape = view.find("shape")) {
    data.shape = counts(*shape);
    if (data.shape.empty()) shape->fail("found an empty list, expected the shape of one sample such as [3, 224, 224]");
  }
  data.classes = optional_count(view, "classes");
  data.image = view.integer_or("image", data.image, kSide);
  data.resize = view.integer_or("resize", data.resize, kSide);
  if (data.image > data.resize) {
    view.fail(
        fmt::format("found image {} above resize {}, expected image <= resize: the image is cut out of the "
                    "resized one",
                    data.image, data.resize));
  }
  data.corrupt = choice(view, "corrupt", kCorruptPolicies, data.corrupt);
  data.threads = view.integer_or("threads", data.threads, Range{.least = 1, .most = 1024});
  view.done();
  return data;
}

AdaptSpec read_adapt(View view) {
  AdaptSpec adapt;
  adapt.policy = choice(view, "policy", kAdaptPolicies, adapt.policy);
  adapt.target = view.number_or("target", adapt.target, Range{.least = -1, .most = 1});
  adapt.rate = view.number_or("rate", adapt.rate, Range{.least = 0, .most = 1, .least_excluded = true});
  adapt.interval = view.integer_or("interval", adapt.interval, kCount);
  adapt.lr_rule = choice(view, "lr_rule", kLrRules, adapt.lr_rule);
  view.done();
  return adapt;
}

BatchSpec read_batch(View view) {
  BatchSpec batch;
  batch.global = view.field("global").integer(kCount);
  if (auto local = view.find("local")) {
    batch.local = local->is_list() ? counts(*local) : std::vector{local->integer(kCount)};
  }
  batch.min = optional_count(view, "min");
  batch.max = optional_count(view, "max");
  if (auto adapt = view.find("adapt")) batch.adapt = read_adapt(*adapt);
  if (batch.min && *batch.min > batch.global) {
    view.fail(fmt::format("found min {} above global {}, expected min <= global", *batch.min, batch.global));
  }
  if (batch.max && *batch.max < batch.global) {
    view.fail(fmt::format("found max {} below global {}, expected max >= global", *batch.max, batch.global));
  }
  for (const auto size : batch.local) {
    if (size > batch.global) {
      view.fail(fmt::format("found local {} above global {}, expected local <= global", size, batch.global));
    }
  }
  view.done();
  return batch;
}

OptimizerSpec read_optimizer(View view) {
  OptimizerSpec optimizer;
  optimizer.name = choice(view, "name", kOptimizers, optimizer.name);
  optimizer.lr = view.number_or("lr", optimizer.lr, kPositive);
  optimizer.momentum = view.number_or("momentum", optimizer.momentum, kShare);
  optimizer.weight_decay = view.number_or("weight_decay", optimizer.weight_decay, kNotNegative);
  optimizer.nesterov = view.boolean_or("nesterov", optimizer.nesterov);
  if (auto betas = view.find("betas")) {
    auto pair = betas->items();
    if (pair.size() == 2) {
      optimizer.beta1 = pair[0].number(kBelowOne);
      optimizer.beta2 = pair[1].number(kBelowOne);
    } else {
      betas->fail(fmt::format("found {} values, expected two such as [0.9, 0.999]", pair.size()));
    }
  }
  optimizer.eps = view.number_or("eps", optimizer.eps, kPositive);
  optimizer.decay_all = view.boolean_or("decay_all", optimizer.decay_all);
  optimizer.clip_norm = view.number_or("clip_norm", optimizer.clip_norm, kNotNegative);
  optimizer.clip_value = view.number_or("clip_value", optimizer.clip_value, kNotNegative);
  if (optimizer.nesterov && optimizer.name != OptimizerName::kSgd) {
    view.fail(fmt::format("found nesterov with `{}`, expected optimizer `sgd` or no nesterov",
                          spelled(kOptimizers, optimizer.name)));
  }
  if (optimizer.nesterov && optimizer.momentum == 0) {
    view.fail("found nesterov with momentum 0, expected a momentum such as 0.9 or no nesterov");
  }
  view.done();
  return optimizer;
}

LrSpec read_lr(View view) {
  LrSpec lr;
  lr.policy = choice(view, "policy", kLrPolicies, lr.policy);
  if (auto milestones = view.find("milestones")) {
    lr.milestones = counts(*milestones);
    if (!std::is_sorted(lr.milestones.begin(), lr.milestones.end())) {
      milestones->fail("found milestones out of order, expected ascending epochs");
    }
  }
  const bool by_milestones = lr.policy == LrPolicy::kStep || lr.policy == LrPolicy::kMultistep;
  if (!lr.milestones.empty() && !by_milestones) {
    view.fail(fmt::format("found milestones with policy `{}`, expected policy `multistep` or no milestones",
                          spelled(kLrPolicies, lr.policy)));
  }
  if (lr.milestones.empty() && lr.policy == LrPolicy::kMultistep) {
    view.fail("found policy `multistep` without milestones, expected epochs such as milestones: [30, 60, 80]");
  }
  if (view.has("every") && !lr.milestones.empty()) {
    view.fail("found `every` and `milestones`, expected one of them: they say the same thing in two ways");
  }
  lr.every = view.integer_or("every", lr.every, kCount);
  lr.gamma = view.number_or("gamma", lr.gamma, kPositive);
  lr.power = view.number_or("power", lr.power, kPositive);
  lr.end = view.number_or("end", lr.end, kNotNegative);
  lr.warmup_steps = view.integer_or("warmup_steps", lr.warmup_steps, Range{.least = 0, .most = 1e9});
  lr.warmup_from = view.number_or("warmup_from", lr.warmup_from, kShare);
  view.done();
  return lr;
}

ParallelSpec read_parallel(View view) {
  ParallelSpec parallel;
  parallel.mode = choice(view, "mode", kModes, parallel.mode);
  parallel.schedule = view.text_or("schedule", "");
  parallel.sync = choice(view, "sync", kSyncs, parallel.sync);
  parallel.plan = view.text_or("plan", "");
  view.done();
  return parallel;
}

ScaleSpec read_scale(View view) {
  ScaleSpec scale;
  scale.objective = choice(view, "objective", kObjectives, scale.objective);
  scale.unit = view.integer_or("unit", scale.unit, kCount);
  if (auto deadline = view.find("deadline")) scale.deadline_seconds = base::to_seconds(deadline->duration());
  if (auto budget = view.find("budget")) scale.budget = budget->number(kPositive);
  if (scale.objective == ScaleObjective::kCost && !scale.deadline_seconds) {
    view.fail("found objective `cost` without `deadline`, expected a deadline such as 8h");
  }
  if (scale.objective == ScaleObjective::kTime && scale.deadline_seconds) {
    view.fail("found a deadline with objective `time`, expected objective `cost` or no deadline");
  }
  if (scale.objective == ScaleObjective::kCost && scale.budget) {
    view.fail("found a budget with objective `cost`, expected objective `time` or no budget");
  }
  view.done();
  return scale;
}

CheckpointSpec read_checkpoint(View view) {
  CheckpointSpec checkpoint;
  checkpoint.every_steps = view.integer_or("every_steps", checkpoint.every_steps, kCount);
  checkpoint.keep = view.integer_or("keep", checkpoint.keep, kCount);
  view.done();
  return checkpoint;
}

base::Result<Job> read_job(const base::Document& document) {
  base::Reader reader(document);
  View root = reader.root();
  Job job;
  job.model = read_model(root.field("model"));
  job.data = read_data(root.field("data"));
  job.batch = read_batch(root.field("batch"));
  if (auto view = root.find("optimizer")) job.optimizer = read_optimizer(*view);
  if (auto view = root.find("lr")) {
    job.lr = read_lr(*view);
    if (job.lr.end > job.optimizer.lr) {
      view->fail(fmt::format("found end {} above optimizer.lr {}, expected end <= optimizer.lr", job.lr.end,
                             job.optimizer.lr));
    }
  }
  job.label_smoothing = root.number_or("label_smoothing", job.label_smoothing, kBelowOne);
  if (auto view = root.find("parallel")) job.parallel = read_parallel(*view);
  job.precision = choice(root, "precision", kPrecisions, job.precision);
  job.epochs = root.integer_or("epochs", job.epochs, kCount);
  job.profiles = root.text_or("profiles", "");
  if (auto view = root.find("checkpoint")) job.checkpoint = read_checkpoint(*view);
  if (auto view = root.find("scale")) job.scale = read_scale(*view);
  job.reproducible = root.boolean_or("reproducible", job.reproducible);
  job.seed = root.integer_or("seed", job.seed, Range{.least = 0, .most = 9e18});
  root.done();
  if (!reader.ok()) return reader.error();
  return job;
}

/// `{name: x, classes: 10}`: the flow style of the examples, one line per section.
class Flow {
 public:
  Flow& add(std::string_view key, std::string_view value) {
    text_ += fmt::format("{}{}: {}", text_.empty() ? "" : ", ", key, value);
    return *this;
  }
  Flow& text(std::string_view key, std::string_view value) { return add(key, base::yaml_text(value)); }
  Flow& number(std::string_view key, double value) { return add(key, base::exact(value)); }
  Flow& count(std::string_view key, std::int64_t value) { return add(key, std::to_string(value)); }
  Flow& boolean(std::string_view key, bool value) { return add(key, value ? "true" : "false"); }
  Flow& numbers(std::string_view key, const std::vector<double>& values) {
    std::vector<std::string> texts;
    for (const double value : values) texts.push_back(base::exact(value));
    return add(key, fmt::format("[{}]", fmt::join(texts, ", ")));
  }
  Flow& counts(std::string_view key, const std::vector<std::int64_t>& values) {
    return add(key, fmt::format("[{}]", fmt::join(values, ", ")));
  }
  std::string str() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

}  // namespace

base::Result<Job> parse_job(std::string_view yaml, const std::string& file) {
  YOKE_TRY(const base::Document document, base::parse_yaml(yaml, file));
  return read_job(document);
}

base::Result<Job> parse_job(const base::Document& document) {
  return read_job(document);
}

base::Result<Job> load_job(const std::string& path) {
  YOKE_TRY(const base::Document document, base::load_document(path));
  return read_job(document);
}

std::string to_yaml(const Job& job) {
  std::string yaml;
  const auto section = [&](std::string_view key, const std::string& value) {
    yaml += fmt::format("{}: {}\n", key, value);
  };
  Flow model;
  model.text("name", job.model.name);
  if (job.model.classes) model.count("classes", *job.model.classes);
  if (!job.model.path.empty()) model.text("path", job.model.path);
  if (!job.model.weights.empty()) model.text("weights", job.model.weights);
  if (job.model.dropout) model.number("dropout", *job.model.dropout);
  if (job.model.time_scale != 1) model.number("time_scale", job.model.time_scale);
  if (job.model.size_scale != 1) model.number("size_scale", job.model.size_scale);
  section("model", model.str());

  Flow data;
  data.text("name", job.data.name);
  if (!job.data.path.empty()) data.text("path", job.data.path);
  if (job.data.limit) data.count("limit", *job.data.limit);
  if (!job.data.shape.empty()) data.counts("shape", job.data.shape);
  if (job.data.classes) data.count("classes", *job.data.classes);
  data.count("image", job.data.image)
      .count("resize", job.data.resize)
      .add("corrupt", spelled(kCorruptPolicies, job.data.corrupt))
      .count("threads", job.data.threads);
  section("data", data.str());

  Flow batch;
  batch.count("global", job.batch.global);
  if (!job.batch.local.empty()) batch.counts("local", job.batch.local);
  if (job.batch.min) batch.count("min", *job.batch.min);
  if (job.batch.max) batch.count("max", *job.batch.max);
  if (const auto& adapt = job.batch.adapt) {
    batch.add("adapt", Flow()
                           .add("policy", spelled(kAdaptPolicies, adapt->policy))
                           .number("target", adapt->target)
                           .number("rate", adapt->rate)
                           .count("interval", adapt->interval)
                           .add("lr_rule", spelled(kLrRules, adapt->lr_rule))
                           .str());
  }
  section("batch", batch.str());

  section("optimizer", Flow()
                           .add("name", spelled(kOptimizers, job.optimizer.name))
                           .number("lr", job.optimizer.lr)
                           .number("momentum", job.optimizer.momentum)
                           .number("weight_decay", job.optimizer.weight_decay)
                           .boolean("nesterov", job.optimizer.nesterov)
                           .numbers("betas", {job.optimizer.beta1, job.optimizer.beta2})
                           .number("eps", job.optimizer.eps)
                           .boolean("decay_all", job.optimizer.decay_all)
                           .number("clip_norm", job.optimizer.clip_norm)
                           .number("clip_value", job.optimizer.clip_value)
                           .str());
  Flow lr;
  lr.add("policy", spelled(kLrPolicies, job.lr.policy));
  if (job.lr.milestones.empty()) {
    lr.count("every", job.lr.every);
  } else {
    lr.counts("milestones", job.lr.milestones);
  }
  lr.number("gamma", job.lr.gamma)
      .number("power", job.lr.power)
      .number("end", job.lr.end)
      .count("warmup_steps", job.lr.warmup_steps)
      .number("warmup_from", job.lr.warmup_from);
  section("lr", lr.str());
  section("label_smoothing", base::exact(job.label_smoothing));

  Flow parallel;
  parallel.add("mode", spelled(kModes, job.parallel.mode));
  if (!job.parallel.schedule.empty()) parallel.text("schedule", job.parallel.schedule);
  parallel.add("sync", spelled(kSyncs, job.parallel.sync));
  if (!job.parallel.plan.empty()) parallel.text("plan", job.parallel.plan);
  section("parallel", parallel.str());

  section("precision", spelled(kPrecisions, job.precision));
  section("epochs", std::to_string(job.epochs));
  if (!job.profiles.empty()) section("profiles", base::yaml_text(job.profiles));
  section("checkpoint",
          Flow().count("every_steps", job.checkpoint.every_steps).count("keep", job.checkpoint.keep).str());
  if (const auto& scale = job.scale) {
    Flow flow;
    flow.add("objective", spelled(kObjectives, scale->objective)).count("unit", scale->unit);
    if (scale->deadline_seconds) flow.number("deadline", *scale->deadline_seconds);
    if (scale->budget) flow.number("budget", *scale->budget);
    section("scale", flow.str());
  }
  section("reproducible", job.reproducible ? "true" : "false");
  section("seed", std::to_string(job.seed));
  return yaml;
}

}  // namespace yoke::plan
