#include "yoke/profiler/memory_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace yoke::profiler {
namespace {

const profile::MemoryParts kParts{
    .weights = 100, .gradients = 100, .optimizer = 100, .buffers = 4, .worker = 50, .passes = 6, .building = 400};

TEST(MemorySearch, ForetellsFromOneWorker) {
  EXPECT_EQ(foretell_workers(kParts, 310 + 4 * 50, 32), 4);
  EXPECT_EQ(foretell_workers(kParts, 310 + 5 * 50 - 1, 32), 4);
  EXPECT_EQ(foretell_workers(kParts, 1 << 20, 32), 32) << "no more than asked for";
  EXPECT_EQ(foretell_workers(kParts, 399, 32), 0) << "the model cannot even be built";
  profile::MemoryParts lean = kParts;
  lean.building = 0;
  EXPECT_EQ(foretell_workers(lean, 359, 32), 0);
}

/// A device on which so many workers fit; counts what is tried.
struct Device {
  int capacity = 0;
  std::vector<int> tried = {};
  MemoryAnswer ask(int foretold, int most) {
    const auto answer = verify_workers(foretold, most, [this](int workers) -> base::Result<bool> {
      tried.push_back(workers);
      return workers <= capacity;
    });
    EXPECT_TRUE(answer.ok());
    return *answer;
  }
};

TEST(MemorySearch, ARightForecastIsTriedAndOneMoreIsRefused) {
  Device device{.capacity = 4};
  const auto answer = device.ask(4, 32);
  EXPECT_EQ(answer.workers, 4);
  EXPECT_TRUE(answer.verified);
  EXPECT_FALSE(answer.capped);
  EXPECT_EQ(device.tried, (std::vector<int>{4, 5}));
}

TEST(MemorySearch, AWrongForecastIsCorrected) {
  for (int foretold = 0; foretold <= 9; ++foretold) {
    Device device{.capacity = 6};
    const auto answer = device.ask(foretold, 32);
    EXPECT_EQ(answer.workers, 6) << foretold;
    EXPECT_TRUE(answer.verified);
    EXPECT_NE(std::ranges::find(device.tried, 6), device.tried.end());
    EXPECT_NE(std::ranges::find(device.tried, 7), device.tried.end()) << "one more was refused";
  }
}

TEST(MemorySearch, ACapIsToldFromALimit) {
  Device device{.capacity = 100};
  const auto answer = device.ask(8, 8);
  EXPECT_EQ(answer.workers, 8);
  EXPECT_TRUE(answer.capped);
  EXPECT_FALSE(answer.verified) << "nothing was refused";
  EXPECT_EQ(device.tried, (std::vector<int>{8}));
}

TEST(MemorySearch, OneWorkerIsTriedToo) {
  Device device{.capacity = 1};
  const auto answer = device.ask(1, 32);
  EXPECT_EQ(answer.workers, 1);
  EXPECT_TRUE(answer.verified);
  EXPECT_EQ(device.tried, (std::vector<int>{1, 2}));
  Device none{.capacity = 0};
  EXPECT_EQ(none.ask(2, 32).workers, 0) << "a forecast is no more than that";
  EXPECT_EQ(none.tried, (std::vector<int>{2, 1}));
}

TEST(MemorySearch, AForecastOfNoneIsTriedToo) {
  Device none{.capacity = 0};
  const auto answer = none.ask(0, 32);
  EXPECT_EQ(answer.workers, 0);
  EXPECT_FALSE(answer.verified) << "no step ran";
  EXPECT_FALSE(answer.capped);
  EXPECT_EQ(none.tried, (std::vector<int>{1}));
}

TEST(MemorySearch, AFailedTrialIsAnErrorAndNoAnswer) {
  const auto answer = verify_workers(3, 8, [](int) -> base::Result<bool> { return base::peer_error("no process"); });
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().message, "no process");
}

}  // namespace
}  // namespace yoke::profiler
