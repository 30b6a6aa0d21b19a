#include "yoke/plan/import/job.h"

#include <fmt/format.h>

#include <algorithm>

#include "yoke/base/text.h"

namespace yoke::plan {
namespace {

using profile::pipedream::Driver;
using profile::pipedream::Partition;

/// PipeDream's own schedule: weights are stashed for each minibatch in flight.
constexpr std::string_view kPipedreamSchedule = "1f1b-stash";

LrSpec lr_of(const Driver& driver, std::int64_t epochs, std::vector<std::string>& notes) {
  LrSpec lr;
  const std::string policy = driver.learning_rate_policy.value_or("step");
  if (policy == "step") {
    // A tenth every 30 epochs.
    lr.policy = LrPolicy::kStep;
    for (std::int64_t epoch = 30; epoch < epochs; epoch += 30) lr.milestones.push_back(epoch);
  } else if (policy == "polynomial") {
    lr.policy = LrPolicy::kPolynomial;
  } else if (policy == "exponential_decay") {
    lr.policy = LrPolicy::kExponential;
    lr.gamma = 0.97;
  } else {
    notes.push_back(
        fmt::format("learning_rate_policy {} is not known here: the rate stays constant", base::quote(policy)));
  }
  if (driver.lr_warmup.value_or(false)) {
    notes.push_back("lr_warmup lasts 5 epochs in PipeDream: set lr.warmup_steps to 5 times the steps of an epoch");
  }
  return lr;
}

std::vector<std::string> module_names(const Partition& partition, int stage) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < partition.stage_of_module.size(); ++i) {
    if (partition.stage_of_module[i] == stage) names.push_back(fmt::format("module{}", i));
  }
  return names;
}

std::vector<std::string> layer_names(const profile::LayerGraph& graph, int stage) {
  std::vector<std::string> names;
  for (const int index : graph.topological_order()) {
    const auto& layer = graph.layers()[static_cast<std::size_t>(index)];
    if (layer.stage == stage) names.push_back(layer.id);
  }
  return names;
}

double compute_seconds(const profile::LayerGraph& graph, int stage) {
  double ms = 0;
  for (const auto& layer : graph.layers()) {
    if (layer.stage == stage) ms += layer.forward_ms + layer.backward_ms;
  }
  return ms / 1000;
}

bool has_stages(const profile::LayerGraph& graph) {
  return std::any_of(graph.layers().begin(), graph.layers().end(),
                     [](const auto& layer) { return layer.stage.has_value(); });
}

}  // namespace

ImportedJob job_of(const JabasWorkspace& workspace) {
  const auto& config = workspace.config;
  ImportedJob imported;
  Job& job = imported.job;
  job.model.name = workspace.profiles.model;
  job.data.name = "synthetic";
  imported.notes.push_back("the config names no data set: job.yaml says synthetic, edit `data`");
  job.profiles = "profiles";
  job.parallel.mode = ParallelMode::kData;
  if (config.batch_size_lower_bound) {
    job.batch.global = *config.batch_size_lower_bound;
    job.batch.min = config.batch_size_lower_bound;
    job.batch.max = config.batch_size_upper_bound;
    if (config.enable_adjust.value_or(true)) {
      AdaptSpec adapt;
      adapt.target = config.similarity_target.value_or(adapt.target);
      adapt.rate = config.batch_size_adjust_rate.value_or(adapt.rate);
      adapt.interval = config.batch_size_adjust_interval.value_or(adapt.interval);
      job.batch.adapt = adapt;
    }
    job.scale = ScaleSpec{.unit = config.resource_alloc_unit.value_or(4)};
  } else {
    const auto sizes = workspace.profiles.local_batch_sizes();
    job.batch.global = static_cast<std::int64_t>(sizes.empty() ? 1 : sizes.front()) * workspace.cluster.device_count();
    imported.notes.push_back(
        fmt::format("the config names no batch: job.yaml says global {}, edit `batch`", job.batch.global));
  }
  return imported;
}

std::string model_name_of(const Driver& driver) {
  const auto parts = base::split(driver.module, ".");
  return std::string(parts.size() > 1 && parts[0] == "models" ? parts[1] : parts[0]);
}

ImportedJob job_of(const Driver& driver, const std::optional<Partition>& partition) {
  ImportedJob imported;
  Job& job = imported.job;
  job.model.name = model_name_of(driver);
  job.data.name = driver.synthetic_data.value_or(false) ? "synthetic"
                  : driver.model_type == "translation"  ? "wmt16"
                                                        : "imagenet";
  job.data.path = driver.data_dir;
  const std::int64_t local = driver.batch_size.value_or(64);
  if (!driver.batch_size) imported.notes.push_back("batch_size is not given: job.yaml says local 64, edit `batch`");
  const auto replicas = partition ? partition->ranks_of_stage.front().size() : driver.machines.size();
  job.batch.local = {local};
  job.batch.global = local * static_cast<std::int64_t>(replicas);
  job.epochs = driver.epochs.value_or(job.epochs);
  job.optimizer.lr = driver.learning_rate.value_or(job.optimizer.lr);
  job.optimizer.weight_decay = driver.weight_decay.value_or(job.optimizer.weight_decay);
  job.lr = lr_of(driver, job.epochs, imported.notes);
  const bool pipeline = partition && partition->ranks_of_stage.size() > 1;
  job.parallel.mode = pipeline ? ParallelMode::kPipeline : ParallelMode::kData;
  if (pipeline) {
    job.parallel.schedule = kPipedreamSchedule;
    job.parallel.plan = "plan.json";
  }
  if (!partition && driver.config_file) {
    imported.notes.push_back(fmt::format("config_file {} was not given to the import: the job is data parallel",
                                         base::quote(*driver.config_file)));
  }
  return imported;
}

base::Result<Plan> plan_of(const Partition& partition, const std::optional<profile::LayerGraph>& graph,
                           const cluster::Cluster& cluster, const std::string& model, std::int64_t lbs) {
  const auto devices = cluster.devices();
  std::size_t ranks = 0;
  for (const auto& stage : partition.ranks_of_stage) ranks += stage.size();
  if (ranks > devices.size()) {
    return base::input_error(fmt::format("the partition has {} ranks, the cluster {} devices", ranks, devices.size()));
  }
  const bool by_layers = graph && has_stages(*graph);
  PipelineLane lane{.schedule = std::string(kPipedreamSchedule)};
  for (std::size_t i = 0; i < partition.ranks_of_stage.size(); ++i) {
    const int number = static_cast<int>(i);
    PipelineStage stage;
    stage.layers = by_layers ? layer_names(*graph, number) : module_names(partition, number);
    if (stage.layers.empty()) {
      return base::input_error(fmt::format("stage {} has no {}", number, by_layers ? "layer in the graph" : "module"));
    }
    if (by_layers) stage.seconds = compute_seconds(*graph, number);
    for (const int rank : partition.ranks_of_stage[i])
      stage.devices.push_back(devices.at(static_cast<std::size_t>(rank)));
    if (!partition.warmup_of_stage.empty()) stage.warmup = partition.warmup_of_stage[i];
    lane.stages.push_back(std::move(stage));
  }
  lane.workers = static_cast<int>(partition.ranks_of_stage.front().size());
  Plan plan{.model = model, .gbs = lbs * lane.workers, .lbs = static_cast<int>(lbs), .cost_model = "none"};
  plan.pipeline_lanes.push_back(std::move(lane));
  YOKE_CHECK(validate(plan));
  return plan;
}

}  // namespace yoke::plan
