#include "yoke/tensor/memory.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <new>
#include <thread>
#include <vector>

namespace yoke::tensor {
namespace {

TEST(Memory, IsCountedWithItsHighWaterMark) {
  use_metered_cpu_memory();
  reset_peak_cpu_memory();
  const auto before = cpu_memory();
  {
    const auto large = torch::zeros({1000, 1000});
    EXPECT_EQ(cpu_memory().bytes - before.bytes, 4'000'000);
    const auto small = torch::ones({10});
    EXPECT_EQ(cpu_memory().bytes - before.bytes, 4'000'040);
  }
  EXPECT_EQ(cpu_memory().bytes, before.bytes);
  EXPECT_GE(cpu_memory().peak_bytes - before.bytes, 4'000'040);
  reset_peak_cpu_memory();
  EXPECT_EQ(cpu_memory().peak_bytes, before.bytes);
}

TEST(Memory, OfASizeIsUsedAgain) {
  use_metered_cpu_memory();
  const void* first = torch::empty({300, 1000}).data_ptr();
  EXPECT_EQ(torch::empty({300, 1000}).data_ptr(), first);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0U);
  release_cached_cpu_memory();
  EXPECT_EQ(torch::full({300, 1000}, 2.0).sum().item<double>(), 600'000);
}

TEST(Memory, AboveTheLimitIsRefused) {
  use_metered_cpu_memory();
  const auto before = cpu_memory().bytes;
  limit_cpu_memory(before + 4'000'000);
  EXPECT_THROW(torch::empty({1000, 1001}), std::bad_alloc);
  EXPECT_EQ(cpu_memory().bytes, before) << "what was refused does not count";
  {
    const auto all = torch::empty({1000, 1000});
    EXPECT_THROW(torch::empty({1}), std::bad_alloc);
  }
  EXPECT_NO_THROW(torch::empty({1000, 1000}));
  limit_cpu_memory(std::numeric_limits<std::int64_t>::max());
}

TEST(Memory, OfManyThreadsStaysTheirOwn) {
  use_metered_cpu_memory();
  const auto before = cpu_memory().bytes;
  std::vector<std::jthread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const auto tensor = torch::full({20'000 + 1000 * (i % 7)}, t, torch::kFloat);
        if ((tensor != t).any().item<bool>()) ++wrong;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cpu_memory().bytes, before);
}

TEST(Memory, TensorsWithoutElementsCostNothing) {
  use_metered_cpu_memory();
  const auto before = cpu_memory().bytes;
  const auto empty = torch::empty({0});
  EXPECT_EQ(empty.numel(), 0);
  EXPECT_EQ(cpu_memory().bytes, before);
}

}  // namespace
}  // namespace yoke::tensor
