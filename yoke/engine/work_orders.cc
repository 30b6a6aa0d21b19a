#include "yoke/engine/work_orders.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "yoke/comm/op.h"

namespace yoke::engine {

int workers_with_samples(const data::Sampler& sampler, const data::Cursor& at, const data::StepShape& shape) {
  return static_cast<int>((sampler.step_samples(at, shape) + shape.lbs - 1) / shape.lbs);
}

base::Result<std::int64_t> count_samples(std::vector<Work>& work, const data::StepShape& shape, comm::Group& group,
                                         const base::Deadline& deadline) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(shape.workers));
  for (auto& one : work) {
    if (!one.ticket) continue;
    YOKE_TRY(one.batch, one.ticket->take(deadline));
    one.ticket.reset();
    counts[static_cast<std::size_t>(one.worker)] = one.batch->samples;
  }
  YOKE_CHECK(group.run(comm::all_reduce(std::span(counts)), deadline));
  for (auto& one : work) {
    one.weight = static_cast<double>(counts[static_cast<std::size_t>(one.worker)]) / static_cast<double>(shape.lbs);
  }
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

WorkOrders::WorkOrders(const data::Sampler& sampler, const data::Dataset& data, WorkOptions options,
                       const base::Clock& clock)
    : sampler_(sampler),
      options_(std::move(options)),
      loader_(data,
              {.threads = options_.threads,
               .capacity =
                   std::max<std::size_t>(4, (kStepsAhead + 1) * std::max<std::size_t>(1, options_.own_workers.size()))},
              clock) {}

base::StreamName WorkOrders::stream(const data::Cursor& at, std::int64_t worker, base::Purpose purpose) const {
  return {.seed = options_.seed,
          .epoch = at.epoch,
          .step = static_cast<std::uint64_t>(at.step),
          .worker = static_cast<std::uint32_t>(worker),
          .purpose = purpose};
}

std::optional<Work> WorkOrders::order(const data::Cursor& at, std::int64_t worker) {
  auto samples = sampler_.samples(at, options_.shape, worker);
  if (samples.empty()) return std::nullopt;
  Work work{.worker = worker,
            .weight = static_cast<double>(samples.size()) / static_cast<double>(options_.shape.lbs),
            .draw = stream(at, worker, base::Purpose::kDropout)};
  if (options_.loads_data) {
    work.ticket = loader_.order({.indices = std::move(samples), .draw = stream(at, worker, base::Purpose::kAugment)});
  }
  return work;
}

WorkOrders::OrderedStep WorkOrders::order_step(const data::Cursor& at) {
  OrderedStep step{.cursor = at};
  for (const std::int64_t worker : options_.own_workers) {
    auto work = order(at, worker);
    if (work) step.work.push_back(*std::move(work));
  }
  return step;
}

std::vector<Work> WorkOrders::take_step(const data::Cursor& cursor) {
  data::Cursor next = ordered_.empty() ? cursor : sampler_.advance(ordered_.back().cursor, options_.shape);
  while (ordered_.size() <= kStepsAhead && static_cast<std::int64_t>(next.epoch) < options_.epochs) {
    ordered_.push_back(order_step(next));
    next = sampler_.advance(next, options_.shape);
  }
  auto work = std::move(ordered_.front().work);
  ordered_.pop_front();
  return work;
}

}  // namespace yoke::engine
