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
const std::vector<std::string> kAdaptPolicies{"similarity"};
const std::vector<std::string> kLrRules{"sqrt", "linear", "none"};
const std::vector<std::string> kOptimizers{"sgd", "adam", "adamw", "lamb"};
const std::vector<std::string> kLrPolicies{"constant", "step", "multistep", "cosine", "polynomial", "exponential"};
const std::vector<std::string> kModes{"auto", "data", "pipeline"};
const std::vector<std::string> kSyncs{"recommend", "overlap", "sequential"};
const std::vector<std::string> kPrecisions{"fp32", "bf16", "fp16"};
const std::vector<std::string> kObjectives{"time", "cost"};

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

ModelSpec read_model(View view) {
  ModelSpec model;
  model.name = view.field("name").text();
  model.classes = optional_count(view, "classes");
  view.done();
  return model;
}

DataSpec read_data(View view) {
  DataSpec data;
  data.name = view.field("name").text();
  data.path = view.text_or("path", "");
  data.limit = optional_count(view, "limit");
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
    if (local->is_list()) {
      for (auto& size : local->items()) batch.local.push_back(size.integer(kCount));
    } else {
      batch.local.push_back(local->integer(kCount));
    }
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
  optimizer.momentum = view.number_or("momentum", optimizer.momentum, Range{.least = 0, .most = 1});
  optimizer.weight_decay = view.number_or("weight_decay", optimizer.weight_decay, kNotNegative);
  optimizer.clip_norm = view.number_or("clip_norm", optimizer.clip_norm, kNotNegative);
  view.done();
  return optimizer;
}

LrSpec read_lr(View view) {
  LrSpec lr;
  lr.policy = choice(view, "policy", kLrPolicies, lr.policy);
  if (auto milestones = view.find("milestones")) {
    for (auto& epoch : milestones->items()) lr.milestones.push_back(epoch.integer(kCount));
    if (!std::is_sorted(lr.milestones.begin(), lr.milestones.end())) {
      milestones->fail("found milestones out of order, expected ascending epochs");
    }
  }
  lr.gamma = view.number_or("gamma", lr.gamma, kPositive);
  lr.warmup_steps = view.integer_or("warmup_steps", lr.warmup_steps, Range{.least = 0, .most = 1e9});
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
  if (auto view = root.find("lr")) job.lr = read_lr(*view);
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
  section("model", model.str());

  Flow data;
  data.text("name", job.data.name);
  if (!job.data.path.empty()) data.text("path", job.data.path);
  if (job.data.limit) data.count("limit", *job.data.limit);
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
                           .number("clip_norm", job.optimizer.clip_norm)
                           .str());
  section("lr", Flow()
                    .add("policy", spelled(kLrPolicies, job.lr.policy))
                    .counts("milestones", job.lr.milestones)
                    .number("gamma", job.lr.gamma)
                    .count("warmup_steps", job.lr.warmup_steps)
                    .str());

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
