#include "yoke/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "yoke/base/error.h"

namespace yoke::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::int64_t> whole_epoch(const Sampler& sampler, std::uint32_t epoch) {
  return sampler.samples({.epoch = epoch}, {.workers = 1, .lbs = sampler.size()}, 0);
}

bool is_permutation_of_all(std::vector<std::int64_t> samples, std::int64_t size) {
  std::sort(samples.begin(), samples.end());
  std::vector<std::int64_t> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return samples == all;
}

TEST(Sampler, EveryEpochIsAPermutation) {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 101, 1009, 4096, 4097, 60'000}) {
    const Sampler sampler(size, 7);
    for (const std::uint32_t epoch : {0U, 1U, 2U, 4'000'000'000U}) {
      EXPECT_TRUE(is_permutation_of_all(whole_epoch(sampler, epoch), size)) << size << " in epoch " << epoch;
    }
  }
}

TEST(Sampler, ImageNetIsAPermutationToo) {
  const Sampler sampler(1'281'167, 3);
  const std::vector<std::int64_t> epoch = whole_epoch(sampler, 5);
  std::vector<bool> seen(epoch.size());
  for (const std::int64_t index : epoch) {
    ASSERT_TRUE(index >= 0 && index < sampler.size());
    ASSERT_FALSE(seen[static_cast<std::size_t>(index)]);
    seen[static_cast<std::size_t>(index)] = true;
  }
  for (const std::int64_t position : {0, 1, 640'583, 1'281'166}) {
    EXPECT_EQ(sampler.sample(5, position), epoch[static_cast<std::size_t>(position)]);
  }
}

TEST(Sampler, TheLargestSizeThereIs) {
  const std::int64_t size = std::numeric_limits<std::int64_t>::max();
  const Sampler sampler(size, 1);
  EXPECT_NE(sampler.sample(0, 0), sampler.sample(0, size - 1));
  const StepShape all{.workers = size, .lbs = size};
  EXPECT_EQ(sampler.step_samples({}, all), size);
  EXPECT_EQ(sampler.worker_samples({}, all, size - 1), 0);
  EXPECT_EQ(sampler.steps_per_epoch({.workers = 1, .lbs = 1}), size);
  EXPECT_EQ(sampler.advance({}, all), (Cursor{.epoch = 1, .consumed = 0, .step = 1}));
}

// The promise of the design: whatever the sequence of batch changes, each epoch has every sample once.
TEST(Sampler, EverySampleOncePerEpochForAnySequenceOfBatchChanges) {
  std::mt19937 random(11);
  const auto uniform = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
  };
  for (int i = 0; i < 400; ++i) {
    SCOPED_TRACE(i);
    const std::int64_t size = uniform(0, 3) == 0 ? uniform(1, 12) : uniform(1, 3000);
    const Sampler sampler(size, random());
    Cursor cursor;
    std::vector<std::int64_t> used;
    StepShape shape{.workers = 1, .lbs = 1};
    for (int steps = 0; cursor.epoch < 3; ++steps) {
      ASSERT_LT(steps, 3 * size + 1) << "goes on for ever";
      if (uniform(0, 4) == 0) shape = {.workers = uniform(1, 9), .lbs = uniform(1, 60)};
      std::int64_t of_step = 0;
      for (std::int64_t worker = 0; worker < shape.workers; ++worker) {
        const std::vector<std::int64_t> of_worker = sampler.samples(cursor, shape, worker);
        ASSERT_EQ(static_cast<std::int64_t>(of_worker.size()), sampler.worker_samples(cursor, shape, worker));
        of_step += static_cast<std::int64_t>(of_worker.size());
        used.insert(used.end(), of_worker.begin(), of_worker.end());
      }
      ASSERT_EQ(of_step, sampler.step_samples(cursor, shape));
      ASSERT_GT(of_step, 0);
      const Cursor next = sampler.advance(cursor, shape);
      ASSERT_EQ(next.step, cursor.step + 1);
      if (next.epoch != cursor.epoch) {
        ASSERT_EQ(next.epoch, cursor.epoch + 1);
        ASSERT_EQ(next.consumed, 0);
        ASSERT_EQ(used, whole_epoch(sampler, cursor.epoch)) << "the order depends on the batches";
        ASSERT_TRUE(is_permutation_of_all(used, size));
        used.clear();
      } else {
        ASSERT_EQ(next.consumed, cursor.consumed + of_step);
      }
      cursor = next;
    }
  }
}

TEST(Sampler, TheLastStepByHand) {
  const Sampler sampler(10, 1, /*shuffle=*/false);
  const StepShape shape{.workers = 4, .lbs = 2};
  EXPECT_EQ(sampler.steps_per_epoch(shape), 2);
  EXPECT_THAT(sampler.samples({.consumed = 0}, shape, 3), ElementsAre(6, 7));
  EXPECT_THAT(sampler.samples({.consumed = 5}, shape, 1), ElementsAre(7, 8));
  EXPECT_THAT(sampler.samples({.consumed = 5}, shape, 2), ElementsAre(9));
  EXPECT_THAT(sampler.samples({.consumed = 5}, shape, 3), IsEmpty());
  EXPECT_EQ(sampler.step_samples({.consumed = 5}, shape), 5);
  EXPECT_EQ(sampler.advance({.epoch = 2, .consumed = 5, .step = 9}, shape),
            (Cursor{.epoch = 3, .consumed = 0, .step = 10}));
  EXPECT_EQ(sampler.steps_per_epoch({.workers = 3, .lbs = 4}), 1);
  EXPECT_EQ(sampler.steps_per_epoch({.workers = 1, .lbs = 9}), 2);
}

TEST(Sampler, StepsPerEpochIsTheNumberOfSteps) {
  for (const std::int64_t size : {1, 2, 10, 97, 100}) {
    for (const std::int64_t workers : {1, 2, 3, 7}) {
      for (const std::int64_t lbs : {1, 4, 10, 50}) {
        const Sampler sampler(size, 1);
        Cursor cursor;
        while (cursor.epoch == 0) cursor = sampler.advance(cursor, {workers, lbs});
        EXPECT_EQ(cursor.step, sampler.steps_per_epoch({workers, lbs})) << size << ", " << workers << " x " << lbs;
      }
    }
  }
}

TEST(Sampler, EpochsAndSeedsGiveOtherOrders) {
  const Sampler sampler(1000, 1);
  const auto first = whole_epoch(sampler, 0);
  EXPECT_EQ(whole_epoch(Sampler(1000, 1), 0), first);
  const auto in_place = [&](const std::vector<std::int64_t>& other) {
    int same = 0;
    for (std::size_t i = 0; i < first.size(); ++i) same += first[i] == other[i] ? 1 : 0;
    return same;
  };
  // One on average; more than 10 has a chance of 1e-8.
  EXPECT_LE(in_place(whole_epoch(sampler, 1)), 10);
  EXPECT_LE(in_place(whole_epoch(Sampler(1000, 2), 0)), 10);
  std::vector<std::int64_t> sorted(1000);
  std::iota(sorted.begin(), sorted.end(), 0);
  EXPECT_LE(in_place(sorted), 10);
}

/// Chi-square of counts that should be equal, in deviations from what is expected of it.
double deviations(const std::vector<int>& counts) {
  const double mean = std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - mean) * (count - mean) / mean;
  const double freedom = static_cast<double>(counts.size()) - 1;
  return (chi_square - freedom) / std::sqrt(2 * freedom);
}

TEST(Sampler, OrdersLookRandom) {
  // Where each position's sample comes from, and how far neighbours are apart, over many epochs.
  for (const std::int64_t size : {10, 60, 1000, 60'000}) {
    SCOPED_TRACE(size);
    const Sampler sampler(size, 5);
    const std::int64_t kBins = 10;
    std::vector<int> places(100), gaps(10);
    for (std::uint32_t epoch = 0; epoch < (size > 10'000 ? 20U : 4000U); ++epoch) {
      const auto order = whole_epoch(sampler, epoch);
      for (std::int64_t i = 0; i < size; i += std::max<std::int64_t>(1, size / 100)) {
        const std::int64_t from = order[static_cast<std::size_t>(i)];
        ++places[static_cast<std::size_t>(i * kBins / size * kBins + from * kBins / size)];
        if (size >= 1000 && i + 1 < size) {
          const std::int64_t gap = (order[static_cast<std::size_t>(i + 1)] - from + size) % size;
          ++gaps[static_cast<std::size_t>(gap * kBins / size)];
        }
      }
    }
    EXPECT_LT(std::abs(deviations(places)), 5);
    if (size >= 1000) {
      EXPECT_LT(std::abs(deviations(gaps)), 5);
    }
  }
}

TEST(Sampler, SmallSetsTakeAllTheirOrders) {
  std::vector<std::vector<std::int64_t>> orders;
  const Sampler sampler(3, 9);
  for (std::uint32_t epoch = 0; epoch < 300; ++epoch) orders.push_back(whole_epoch(sampler, epoch));
  std::sort(orders.begin(), orders.end());
  orders.erase(std::unique(orders.begin(), orders.end()), orders.end());
  EXPECT_EQ(orders.size(), 6U);
}

TEST(Sampler, RefusesWhatMakesNoSense) {
  EXPECT_THROW(Sampler(0, 1), base::Failure);
  const Sampler sampler(10, 1);
  EXPECT_THROW(static_cast<void>(sampler.sample(0, 10)), base::Failure);
  EXPECT_THROW(static_cast<void>(sampler.sample(0, -1)), base::Failure);
  EXPECT_THROW(static_cast<void>(sampler.samples({}, {.workers = 2, .lbs = 1}, 2)), base::Failure);
  EXPECT_THROW(static_cast<void>(sampler.samples({}, {.workers = 0, .lbs = 1}, 0)), base::Failure);
  EXPECT_THROW(static_cast<void>(sampler.step_samples({}, {.workers = 1, .lbs = 0})), base::Failure);
  EXPECT_THROW(static_cast<void>(sampler.advance({.consumed = 10}, {.workers = 1, .lbs = 1})), base::Failure);
}

}  // namespace
}  // namespace yoke::data
