// Links measured by ranks that are threads: the arithmetic is exact, and no link is faster than it was made.
#include "yoke/comm/probe/link_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "yoke/comm/decorate/shaped.h"
#include "yoke/comm/join.h"

namespace yoke::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<LinkSample> on_a_line(double latency, double bytes_per_s) {
  std::vector<LinkSample> samples;
  for (const std::size_t bytes : usual_probe_sizes()) {
    samples.push_back({.bytes = bytes, .seconds = latency + static_cast<double>(bytes) / bytes_per_s});
  }
  return samples;
}

TEST(LinkFit, FindsTheLineItWasMadeOf) {
  for (const auto& [latency, speed] : {std::pair{50e-6, 1.25e9}, {0.0, 10e9}, {2e-3, 1e6}}) {
    const LinkFit fit = fit_link(on_a_line(latency, speed));
    EXPECT_NEAR(fit.latency, latency, 1e-9);
    EXPECT_NEAR(fit.bytes_per_s, speed, speed * 1e-6);
    EXPECT_NEAR(fit.error, 0, 1e-9);
  }
}

TEST(LinkFit, AFewWildSamplesHardlyMoveIt) {
  auto samples = on_a_line(50e-6, 1.25e9);
  samples[2].seconds *= 20;
  samples[9].seconds *= 5;
  const LinkFit fit = fit_link(samples);
  EXPECT_NEAR(fit.latency, 50e-6, 10e-6);
  EXPECT_NEAR(fit.bytes_per_s, 1.25e9, 0.15e9);
}

TEST(LinkFit, SmallAndLargeSizesCountAlike) {
  // Every sample is off by the same share, up and down in turn: the error says so, at both ends.
  auto samples = on_a_line(100e-6, 1e9);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i].seconds *= i % 2 == 0 ? 1.1 : 0.9;
  const LinkFit fit = fit_link(samples);
  EXPECT_NEAR(fit.latency, 100e-6, 15e-6);
  EXPECT_NEAR(fit.bytes_per_s, 1e9, 0.15e9);
  EXPECT_NEAR(fit.error, 0.1, 0.02) << "some 20% off, some not at all";
}

TEST(LinkFit, TooLongAndTooShortAreEquallyWrong) {
  // A busy machine: most times are far too long, some are what they should be. The line goes where most are.
  auto samples = on_a_line(4e-3, 100e6);
  samples[1].seconds = 10e-6;
  samples[3].seconds = 40e-6;
  samples[5].seconds /= 30;
  const LinkFit fit = fit_link(samples);
  EXPECT_NEAR(fit.latency, 4e-3, 1e-5);
  EXPECT_NEAR(fit.bytes_per_s, 100e6, 1e6);
}

TEST(LinkFit, NothingUnphysicalComesOut) {
  // Superlinear times would need a negative latency, falling ones a negative price of a byte.
  const std::vector<LinkSample> steep{{.bytes = 1000, .seconds = 1e-6}, {.bytes = 2000, .seconds = 4e-6}};
  EXPECT_EQ(fit_link(steep).latency, 0);
  EXPECT_GT(fit_link(steep).bytes_per_s, 0);
  const std::vector<LinkSample> falling{{.bytes = 1000, .seconds = 4e-6}, {.bytes = 2000, .seconds = 1e-6}};
  const LinkFit flat = fit_link(falling);
  EXPECT_GE(flat.latency, 0);
  EXPECT_TRUE(flat.bytes_per_s > 0 && std::isfinite(flat.bytes_per_s));
}

TEST(LinkFit, MiddleIsTheMedianAndTheQuarters) {
  std::vector<double> values{5, 1, 100, 2, 3};
  const Middle middle = middle_of(values);
  EXPECT_EQ(middle.median, 3);
  EXPECT_EQ(middle.spread, 3);
  std::vector<double> one{7};
  EXPECT_EQ(middle_of(one).median, 7);
  EXPECT_EQ(middle_of(one).spread, 0);
}

/// What every rank of a group of threads gets.
template <typename Body>
std::vector<base::Result<LinkProbe>> on_ranks(int size, const LinkShape& shape, Body body) {
  const base::SystemClock clock;
  auto store = make_memory_store();
  std::vector<base::Result<LinkProbe>> results(static_cast<std::size_t>(size), base::peer_error("not run"));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto deadline = base::Deadline::in(seconds(20), clock);
      auto own = store->another(deadline);
      auto group = join({.name = "probe",
                         .rank = rank,
                         .size = size,
                         .backend = "local",
                         .decorate =
                             [&](std::unique_ptr<Backend> inner) {
                               return make_shaped_backend(std::move(inner), size, shape, clock);
                             }},
                        **own, deadline, clock);
      results[static_cast<std::size_t>(rank)] = group.ok() ? body(**group, clock) : group.error();
      if (group.ok()) {
        EXPECT_TRUE((*group)->close().ok());
      }
    });
  }
  threads.clear();
  return results;
}

const ProbeOptions kQuick{.sizes = {4096, 65'536, 262'144}, .budget = milliseconds(300), .patience = seconds(20)};

TEST(LinkProbe, AllRanksGetTheSameAnswer) {
  const auto results =
      on_ranks(3, {}, [](Group& group, const base::Clock& clock) { return probe_all_reduce(group, kQuick, clock); });
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.error().to_string();
    EXPECT_EQ(*result, *results[0]);
  }
  const LinkProbe& probe = *results[0];
  EXPECT_EQ(probe.ranks, 3);
  EXPECT_EQ(probe.samples.size() + probe.left_out.size(), kQuick.sizes.size());
  for (const auto& sample : probe.samples) {
    EXPECT_GT(sample.seconds, 0);
    EXPECT_GE(sample.spread, 0);
    EXPECT_GE(sample.repeats, kLeastRepeats);
    EXPECT_LE(sample.repeats, kMostRepeats);
  }
}

TEST(LinkProbe, NoMessageBeatsItsLink) {
  const LinkShape shape{.latency = milliseconds(2), .bytes_per_second = 20e6};
  const auto results = on_ranks(
      3, shape, [](Group& group, const base::Clock& clock) { return probe_messages(group, 2, 0, kQuick, clock); });
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.error().to_string();
    EXPECT_EQ(*result, *results[0]) << "the rank between only listens";
  }
  for (const auto& sample : results[0]->samples) {
    EXPECT_GE(sample.seconds, 0.002 + static_cast<double>(sample.bytes) / 20e6);
  }
}

TEST(LinkProbe, WhatDoesNotFitTheBudgetIsLeftOut) {
  // 64 KiB take 65 ms at least, seven times; 100 MB would take minutes.
  ProbeOptions options{.sizes = {4096, 65'536, 104'857'600}, .budget = milliseconds(400), .patience = seconds(20)};
  const auto results = on_ranks(2, {.bytes_per_second = 1e6}, [&](Group& group, const base::Clock& clock) {
    return probe_messages(group, 0, 1, options, clock);
  });
  ASSERT_TRUE(results[0].ok()) << results[0].error().to_string();
  EXPECT_THAT(results[0]->left_out, ::testing::ElementsAre(104'857'600));
  EXPECT_EQ(results[0]->samples.back().repeats, kLeastRepeats);
}

}  // namespace
}  // namespace yoke::comm
