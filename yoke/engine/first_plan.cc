#include "yoke/engine/first_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "yoke/base/units.h"
#include "yoke/comm/op.h"
#include "yoke/plan/cost/iidp_model.h"
#include "yoke/plan/cost/measured_model.h"
#include "yoke/plan/solve/batch/batch.h"

namespace yoke::engine {
namespace {

constexpr std::size_t kMostSizes = 8;
constexpr int kProbe = 2;   // samples of the pass that memory is judged by
constexpr int kVisits = 2;  // to every size, with all others between them: a machine's mood lasts longer than a visit

/// What one rank has measured for one local batch size. Plain numbers: it travels as they are.
struct Entry {
  double fits = 0;  // 1: it does
  double forward = 0;
  double backward = 0;
};

/// What all ranks have measured.
struct Table {
  std::vector<int> sizes;
  std::vector<std::vector<Entry>> entries;  // by rank, by size
  std::vector<double> update;               // by rank
  double all_reduce = 0;
};

/// The costs of the classes of ranks, each the mean of its ranks. One worker at a time on each device: more at once
/// gain nothing where kernels share the cores of a processor.
plan::MeasuredModel make_cost(cluster::Cluster cluster, std::vector<int> node_classes, const Table& table,
                              const std::vector<int>& class_of_rank, plan::Sync recommended) {
  const auto classes = static_cast<std::size_t>(1 + *std::ranges::max_element(node_classes));
  std::vector<plan::MeasuredTable> tables(classes);
  for (std::size_t c = 0; c < classes; ++c) {
    double ranks = 0;
    double update = 0;
    for (std::size_t rank = 0; rank < class_of_rank.size(); ++rank) {
      if (static_cast<std::size_t>(class_of_rank[rank]) != c) continue;
      ++ranks;
      update += table.update[rank];
    }
    for (std::size_t i = 0; i < table.sizes.size(); ++i) {
      Entry mean{.fits = 1};
      for (std::size_t rank = 0; rank < class_of_rank.size(); ++rank) {
        if (static_cast<std::size_t>(class_of_rank[rank]) != c) continue;
        const Entry& one = table.entries[rank][i];
        mean.fits = std::min(mean.fits, one.fits);
        mean.forward += one.forward / ranks;
        mean.backward += one.backward / ranks;
      }
      if (mean.fits == 0) continue;
      tables[c][table.sizes[i]] = {{.vsw = 1,
                                    .data = 0,  // loaded beside the passes
                                    .forward = mean.forward,
                                    .backward = mean.backward,
                                    .first = update / ranks,
                                    .update = update / ranks}};
    }
  }
  const auto reduce = [seconds = table.all_reduce](int /*device_class*/, plan::Extent extent) {
    return plan::ReduceTime{.early = 0, .last = extent.devices > 1 ? seconds : 0};
  };
  return {std::move(cluster), std::move(node_classes), std::move(tables), reduce, 0, recommended};
}

/// The nodes of the ranks' devices, the class of each node, and of each rank.
struct Sorted {
  std::vector<cluster::Node> nodes;
  std::vector<int> node_classes;
  std::vector<int> rank_classes;
};

base::Result<Sorted> sort_devices(const std::vector<DeviceSpec>& devices) {
  Sorted sorted;
  std::map<std::tuple<std::string, double, std::int64_t>, int> classes;
  std::map<std::string, std::size_t> node_of;
  for (const auto& device : devices) {
    const auto key = std::tuple(device.type, device.speed, device.memory_bytes.value_or(-1));
    const int device_class = classes.emplace(key, static_cast<int>(classes.size())).first->second;
    const auto [known, added] = node_of.emplace(device.id.node, sorted.nodes.size());
    if (added) {
      sorted.nodes.push_back({.name = device.id.node, .devices = 0, .type = device.type, .speed = device.speed});
      sorted.node_classes.push_back(device_class);
    }
    if (device.id.index != sorted.nodes[known->second].devices) {
      return base::input_error(
          fmt::format("device {} follows {} devices of its node; expected ranks in the order of "
                      "devices, none left out",
                      device.id.to_string(), sorted.nodes[known->second].devices));
    }
    ++sorted.nodes[known->second].devices;
    sorted.rank_classes.push_back(device_class);
  }
  return sorted;
}

/// What passes take beside the state: a part that is there once, and what each sample adds.
struct Footprint {
  double fixed = 0;
  double per_sample = 0;
};

/// Judged by passes of few samples: what they add grows with the samples, what else they need does not.
base::Result<Footprint> measure_footprint(Trainer& trainer) {
  const auto beyond = [&](int samples) -> base::Result<double> {
    YOKE_TRY(const Measurement probe, trainer.measure(samples, 1));
    return static_cast<double>(std::max<std::int64_t>(0, probe.peak_bytes - trainer.state_bytes().total()));
  };
  YOKE_TRY(const double few, beyond(kProbe));
  YOKE_TRY(const double more, beyond(2 * kProbe));
  const double per_sample = std::max(0.0, more - few) / kProbe;
  return Footprint{.fixed = std::max(0.0, few - kProbe * per_sample), .per_sample = per_sample};
}

bool fits(const Footprint& footprint, const Trainer& trainer, const DeviceSpec& device, int lbs, int vsw) {
  const double needed =
      static_cast<double>(trainer.state_bytes().total()) + footprint.fixed + footprint.per_sample * lbs * vsw;
  return !device.memory_bytes || needed <= static_cast<double>(*device.memory_bytes);
}

/// The largest local batch up to `most` that a global batch can be cut into.
int divisor_up_to(std::int64_t gbs, int most) {
  int size = std::max(1, most);
  while (gbs % size != 0) --size;
  return size;
}

base::Result<Table> measure(Trainer& trainer, comm::Group& group, const RankOptions& options, const base::Clock& clock,
                            std::vector<int> sizes) {
  const auto rank = static_cast<std::size_t>(group.rank());
  const DeviceSpec& device = options.devices[rank];
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto by = [&] { return base::Deadline::in(options.patience, clock); };
  constexpr std::size_t kFields = sizeof(Entry) / sizeof(double);

  Footprint footprint;
  if (device.memory_bytes) {
    YOKE_TRY(footprint, measure_footprint(trainer));
  }
  std::vector<double> numbers(ranks * (sizes.size() * kFields + 1));
  double* own = numbers.data() + rank * (sizes.size() * kFields + 1);
  std::vector<Entry> found(sizes.size());
  for (int visit = 0; visit < kVisits; ++visit) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      // All ranks measure together: what they share (cores, memory) is shared in training too.
      YOKE_CHECK(group.run(comm::barrier(), by()));
      if (!fits(footprint, trainer, device, sizes[i], 1)) continue;
      YOKE_TRY(const Measurement one, trainer.measure(sizes[i], 1));
      found[i].fits = 1;
      found[i].forward += one.forward / kVisits;
      found[i].backward += one.backward / kVisits;
    }
  }
  std::copy_n(reinterpret_cast<const double*>(found.data()), found.size() * kFields, own);
  own[sizes.size() * kFields] = trainer.measure_update();
  Table table{.sizes = std::move(sizes)};
  YOKE_TRY(table.all_reduce, trainer.measure_all_reduce(group));
  YOKE_CHECK(group.run(comm::all_reduce(std::span(&table.all_reduce, 1), comm::Reduction::kMax), by()));
  YOKE_CHECK(group.run(comm::all_gather(std::span(numbers)), by()));
  for (std::size_t r = 0; r < ranks; ++r) {
    const double* theirs = numbers.data() + r * (table.sizes.size() * kFields + 1);
    auto& entries = table.entries.emplace_back(table.sizes.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      std::copy_n(theirs + i * kFields, kFields, reinterpret_cast<double*>(&entries[i]));
    }
    table.update.push_back(theirs[table.sizes.size() * kFields]);
  }
  return table;
}

}  // namespace

std::vector<int> local_batches_to_try(const plan::BatchSpec& batch, int devices) {
  if (!batch.local.empty()) return {batch.local.begin(), batch.local.end()};
  std::vector<int> divisors;
  for (std::int64_t size = 1; size <= batch.global / devices && size <= 1024; ++size) {
    if (batch.global % size == 0) divisors.push_back(static_cast<int>(size));
  }
  if (divisors.empty()) return {1};
  // The largest ones, each at least a quarter smaller than the one before: unlike devices are balanced by the number of
  // workers, so a few more sizes pay.
  std::vector<int> chosen;
  for (auto size = divisors.rbegin(); size != divisors.rend() && chosen.size() < kMostSizes; ++size) {
    if (chosen.empty() || *size * 4 <= chosen.back() * 3) chosen.push_back(*size);
  }
  std::ranges::reverse(chosen);
  return chosen;
}

base::Result<bool> fits_memory(Trainer& trainer, const DeviceSpec& device, int lbs, int vsw) {
  if (!device.memory_bytes) return true;
  YOKE_TRY(const Footprint footprint, measure_footprint(trainer));
  return fits(footprint, trainer, device, lbs, vsw);
}

base::Result<FirstPlan> measure_and_plan(Trainer& trainer, comm::Group& group, const RankOptions& options,
                                         const base::Clock& clock, std::optional<int> at_most) {
  YOKE_TRY(Sorted sorted, sort_devices(options.devices));
  YOKE_TRY(cluster::Cluster cluster, cluster::Cluster::make(std::move(sorted.nodes)));
  std::vector<int> sizes = local_batches_to_try(options.job.batch, group.size());
  const int wanted = *std::ranges::max_element(sizes);
  if (at_most) std::erase_if(sizes, [&](int size) { return size > *at_most; });
  if (sizes.empty()) sizes.push_back(divisor_up_to(options.job.batch.global, *at_most));

  const profile::BucketProfile buckets{trainer.bucket_mebibytes()};
  for (;;) {
    YOKE_TRY(const Table table, measure(trainer, group, options, clock, sizes));
    const plan::MeasuredModel cost =
        make_cost(cluster, sorted.node_classes, table, sorted.rank_classes, plan::recommend_sync(buckets));
    if (cost.local_batch_sizes().empty()) {
      // Nothing fits: half of the smallest, or what is next to that, keeps the global batch with more rounds.
      const int smallest = *std::ranges::min_element(sizes);
      if (smallest == 1) {
        return base::infeasible_error(fmt::format(
            "the model does not fit: weights, gradients and optimizer take {} and one sample at a time exceeds the "
            "smallest device's memory; expected devices with more `memory`",
            base::format(base::Bytes{trainer.state_bytes().total()})));
      }
      sizes = {divisor_up_to(options.job.batch.global, smallest / 2)};
      continue;
    }
    plan::BatchRequest request{.gbs = static_cast<int>(options.job.batch.global)};
    if (options.job.parallel.sync == plan::SyncChoice::kOverlap) request.sync = plan::Sync::kOverlap;
    if (options.job.parallel.sync == plan::SyncChoice::kSequential) request.sync = plan::Sync::kSequential;
    YOKE_TRY(const plan::BatchSolution solution, plan::solve_batch(cost, request));
    FirstPlan first;
    first.plan = {.model = options.job.model.name,
                  .gbs = solution.gbs,
                  .lbs = solution.lbs,
                  .sync = solution.sync,
                  .step_seconds = solution.step_seconds,
                  .cost_model = "measured"};
    for (const auto& lane : solution.lanes) {
      for (int i = 0; i < lane.devices; ++i) {
        first.plan.data_lanes.push_back({.device = {.node = lane.node, .index = lane.first_device + i},
                                         .vsw = lane.vsw,
                                         .ga = lane.ga,
                                         .seconds = lane.parts});
      }
    }
    first.sync_reason = request.sync ? "as the job says" : plan::explain_sync(buckets);
    if (solution.equal_split) first.equal_split_step_seconds = solution.equal_split->step_seconds;
    const auto& usable = cost.local_batch_sizes();
    if (*std::ranges::max_element(usable) < wanted) {
      first.note = fmt::format(
          "a local batch of {} does not fit the memory of every device; trains with {} and more rounds, the global "
          "batch stays {}",
          wanted, solution.lbs, solution.gbs);
    }
    return first;
  }
}

}  // namespace yoke::engine
