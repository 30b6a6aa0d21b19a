#include "yoke/comm/reproducible/reproducible.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "tests/comm/reproducible_reference.h"

namespace yoke::comm {
namespace {

using testing::allowed_error;
using testing::defined_sum;
using testing::ExactSum;

using Values = std::vector<float>;

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::uint32_t bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

std::size_t below(std::mt19937& random, std::size_t bound) {
  return random() % bound;
}

float finished(const ReproducibleSum& sum) {
  Values out(1);
  EXPECT_TRUE(sum.finish(out).ok());
  return out[0];
}

float summed(const Values& values) {
  ReproducibleSum sum(1);
  for (const float& value : values) sum.add(std::span(&value, 1));
  return finished(sum);
}

float plainly_summed(const Values& values) {
  return std::accumulate(values.begin(), values.end(), 0.0F);
}

/// What values an element gets.
enum class Kind { kGradients, kAllExponents, kOneBoundary, kDenormals, kCancelling };
constexpr Kind kKinds[] = {Kind::kGradients, Kind::kAllExponents, Kind::kOneBoundary, Kind::kDenormals,
                           Kind::kCancelling};

/// Any finite f32 with an exponent (biased, 0: denormal) in least .. most.
float random_float(std::mt19937& random, std::uint32_t least, std::uint32_t most) {
  const auto exponent = static_cast<std::uint32_t>(least + random() % (most - least + 1));
  const auto sign_and_fraction = static_cast<std::uint32_t>(random()) & 0x807fffffU;
  return std::bit_cast<float>(sign_and_fraction | exponent << 23U);
}

Values random_values(std::mt19937& random, Kind kind, std::size_t count) {
  Values values(count);
  std::normal_distribution<float> gradient(0, 1e-3F);
  const auto boundary = static_cast<std::uint32_t>(3 + below(random, 249));
  for (float& value : values) {
    switch (kind) {
      case Kind::kGradients:
        value = gradient(random);
        break;
      case Kind::kAllExponents:
        value = random_float(random, 0, 254);
        break;
      case Kind::kOneBoundary:
        value = random_float(random, boundary - 3, boundary + 2);
        break;
      case Kind::kDenormals:
        value = random_float(random, 0, 1);
        break;
      case Kind::kCancelling:
        value = random_float(random, 0, 254);
        break;
    }
  }
  if (kind == Kind::kCancelling) {
    // Everything but the last value has its opposite.
    for (std::size_t i = 0; 2 * i + 1 < count; ++i) values[2 * i + 1] = -values[2 * i];
  }
  return values;
}

/// Mostly few addends, up to 1000.
std::size_t random_count(std::mt19937& random) {
  return 1 + below(random, below(random, 20) == 0 ? 1000 : 24);
}

/// Adds the values in random order to the sums of several ranks, each of which has merged several threads' sums, and
/// adds those up as reproducible_all_reduce() does.
float summed_in_groups(std::mt19937& random, Values values) {
  std::shuffle(values.begin(), values.end(), random);
  std::vector<ReproducibleSum> threads(1 + below(random, 9), ReproducibleSum(1));
  for (const float& value : values) threads[below(random, threads.size())].add(std::span(&value, 1));

  std::vector<ReproducibleSum> ranks(1 + below(random, 5), ReproducibleSum(1));
  for (const ReproducibleSum& thread : threads) ranks[below(random, ranks.size())].merge(thread);

  std::uint8_t scale = 0;
  for (const ReproducibleSum& rank : ranks) scale = std::max(scale, rank.scales()[0]);
  std::int64_t total = 0;
  std::int64_t addends = 0;
  for (const ReproducibleSum& rank : ranks) {
    std::int64_t packed = 0;
    rank.pack(std::span(&scale, 1), std::span(&packed, 1));
    total += packed;
    addends += rank.addends();
  }
  EXPECT_EQ(addends, static_cast<std::int64_t>(values.size()));
  Values out(1);
  EXPECT_TRUE(unpack(std::span(&scale, 1), std::span(&total, 1), addends, out).ok());
  return out[0];
}

TEST(Reproducible, OrderAndGroupingDoNotMatterAsTheyDoInAPlainSum) {
  std::mt19937 random(1);
  for (const Kind kind : kKinds) {
    int plain_differs = 0;
    for (int i = 0; i < 400; ++i) {
      Values values = random_values(random, kind, random_count(random));
      const float expected = summed(values);
      const float plain = plainly_summed(values);
      for (int grouping = 0; grouping < 5; ++grouping) {
        ASSERT_EQ(bits(summed_in_groups(random, values)), bits(expected)) << i << ", " << values.size() << " values";
        std::shuffle(values.begin(), values.end(), random);
        ASSERT_EQ(bits(summed(values)), bits(expected)) << i << ", " << values.size() << " values";
        if (bits(plainly_summed(values)) != bits(plain)) ++plain_differs;
      }
    }
    // Denormals are multiples of 2^-149 and add exactly in any order.
    if (kind != Kind::kDenormals) {
      EXPECT_GT(plain_differs, 200) << static_cast<int>(kind);
    }
  }
}

TEST(Reproducible, SpecialValuesDoNotDependOnOrderOrGrouping) {
  std::mt19937 random(2);
  const float specials[] = {kInf, -kInf, kNan, -kNan, std::bit_cast<float>(0x7f800001U), 0.0F, -0.0F, kLargest};
  int finite = 0;
  for (int i = 0; i < 1000; ++i) {
    Values values = random_values(random, Kind::kAllExponents, 1 + below(random, 12));
    for (std::size_t k = below(random, 4); k-- > 0;) {
      values[below(random, values.size())] = specials[below(random, std::size(specials))];
    }
    const bool nan = std::any_of(values.begin(), values.end(), [](float value) { return std::isnan(value); });
    const auto infinities = std::count(values.begin(), values.end(), kInf);
    const auto negative_infinities = std::count(values.begin(), values.end(), -kInf);
    float expected = 0;
    if (nan || (infinities > 0 && negative_infinities > 0)) {
      expected = kNan;
    } else if (infinities + negative_infinities > 0) {
      expected = infinities > 0 ? kInf : -kInf;
    } else {
      expected = defined_sum(values);
      ++finite;
    }
    ASSERT_EQ(bits(summed(values)), bits(expected)) << i;
    ASSERT_EQ(bits(summed_in_groups(random, values)), bits(expected)) << i;
  }
  EXPECT_GT(finite, 100);
  EXPECT_LT(finite, 900);
}

TEST(Reproducible, IsWhatItIsDefinedToBeAndKeepsItsBound) {
  std::mt19937 random(3);
  int inexact = 0;
  for (const Kind kind : kKinds) {
    for (int i = 0; i < 2000; ++i) {
      const Values values = random_values(random, kind, random_count(random));
      const float result = summed(values);
      ASSERT_EQ(bits(result), bits(defined_sum(values))) << i << ", " << values.size() << " values";
      if (std::isinf(result)) continue;  // seen against the definition above
      ExactSum error;
      for (const float value : values) error.add(value);
      error.add(result, -1);
      ASSERT_LE(std::fabs(error.value()), allowed_error(values, result) * (1 + 1e-9L)) << i;
      if (error.value() != 0) ++inexact;
    }
  }
  EXPECT_GT(inexact, 1000);
}

TEST(Reproducible, OneValueIsItself) {
  std::mt19937 random(4);
  for (std::uint32_t exponent = 0; exponent <= 254; ++exponent) {
    for (int i = 0; i < 50; ++i) {
      const float value = random_float(random, exponent, exponent);
      ASSERT_EQ(bits(summed({value})), value == 0 ? 0U : bits(value)) << value;
    }
  }
  for (const float value : {kSmallest, -kSmallest, kLargest, -kLargest, 0x1p-126F, 0x1.fffffcp-127F}) {
    EXPECT_EQ(bits(summed({value})), bits(value)) << value;
  }
}

TEST(Reproducible, ZerosAndCancellation) {
  EXPECT_EQ(bits(finished(ReproducibleSum(1))), bits(0.0F));
  EXPECT_EQ(bits(summed({0.0F})), bits(0.0F));
  EXPECT_EQ(bits(summed({-0.0F, -0.0F})), bits(0.0F));
  EXPECT_EQ(bits(summed({3.5F, -3.5F})), bits(0.0F));
  EXPECT_EQ(bits(summed({kLargest, 1.0F, -kLargest})), bits(0.0F));  // 1 is far below the grid of the largest
  EXPECT_EQ(summed({1.0F, 0x1p-20F, -1.0F}), 0x1p-20F);
  EXPECT_EQ(summed({-0.0F, kSmallest}), kSmallest);
}

TEST(Reproducible, TheGridAndTheRoundingByHand) {
  // 1 = 2^149 above 2^-149; (149 + 1) / 24 = 6, so the grid is 2^(24 * 5 - 149) = 2^-29.
  EXPECT_EQ(summed({1.0F, -1.0F, 0x1p-29F}), 0x1p-29F);
  EXPECT_EQ(summed({1.0F, -1.0F, 0x1p-30F}), 0x1p-29F);     // half a grid step: away from zero
  EXPECT_EQ(summed({1.0F, -1.0F, -0x1p-30F}), -0x1p-29F);   // the same for the opposite
  EXPECT_EQ(summed({1.0F, -1.0F, 0x1.fffffep-31F}), 0.0F);  // less than half
  EXPECT_EQ(summed({1.0F, -1.0F, 0x1.8p-29F, 0x1p-29F}), 0x1.8p-28F);
  // The result is rounded to even once: a step of f32 above 1 is 2^-23.
  EXPECT_EQ(summed({1.0F, 0x1p-24F}), 1.0F);
  EXPECT_EQ(summed({1.0F, 0x1p-24F, 0x1p-29F}), 1.0F + 0x1p-23F);
  EXPECT_EQ(summed({1.0F + 0x1p-23F, 0x1p-24F}), 1.0F + 0x1p-22F);
  EXPECT_EQ(summed({0x1.fffffep0F, 0x1p-24F}), 2.0F);  // a carry into the exponent
  // Denormals are exact, also across the border to normal numbers.
  EXPECT_EQ(summed({0x1p-126F, -kSmallest}), 0x1p-126F - kSmallest);
  EXPECT_EQ(summed({0x1p-126F - kSmallest, kSmallest}), 0x1p-126F);
}

TEST(Reproducible, OnlyTheResultOverflows) {
  EXPECT_EQ(summed({kLargest, kLargest, -kLargest}), kLargest);
  EXPECT_EQ(summed({kLargest, kLargest}), kInf);
  EXPECT_EQ(summed({-kLargest, -kLargest}), -kInf);
  // Half a step above the largest number rounds to even, which is infinity; less than half does not.
  EXPECT_EQ(summed({kLargest, 0x1p103F}), kInf);
  EXPECT_EQ(summed({kLargest, 0x1.ffcp102F}), kLargest);  // on the grid, which is 2^91
}

TEST(Reproducible, ElementsAreIndependentAtEveryLengthAndOffset) {
  std::mt19937 random(5);
  for (std::size_t count = 0; count <= 70; ++count) {
    ReproducibleSum whole(count);
    ReproducibleSum parts(count);
    std::vector<Values> of_element(count);
    for (int addend = 0; addend < 6; ++addend) {
      Values values = random_values(random, Kind::kAllExponents, count);
      if (count > 0 && addend == 3) values[below(random, count)] = -kInf;
      whole.add(values);
      const std::size_t cut = below(random, count + 1);
      parts.add(cut, std::span(values).subspan(cut));
      parts.add(0, std::span(values).first(cut));
      for (std::size_t i = 0; i < count; ++i) of_element[i].push_back(values[i]);
    }
    Values of_whole(count);
    Values of_parts(count);
    ASSERT_TRUE(whole.finish(of_whole).ok());
    ASSERT_TRUE(parts.finish(of_parts).ok());
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(bits(of_whole[i]), bits(summed(of_element[i]))) << i << " of " << count;
      ASSERT_EQ(bits(of_parts[i]), bits(of_whole[i])) << i << " of " << count;
    }
  }
}

TEST(Reproducible, TheModeOfTheProcessorDoesNotMatter) {
  std::mt19937 random(6);
  std::fenv_t usual;
  std::fegetenv(&usual);
  for (int i = 0; i < 200; ++i) {
    const Values values = random_values(random, i % 2 == 0 ? Kind::kOneBoundary : Kind::kDenormals, 20);
    const float expected = summed(values);
    std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040U);  // denormals are zeros, as operands and as results
#endif
    const float other = summed(values);
    std::fesetenv(&usual);
    ASSERT_EQ(bits(other), bits(expected)) << i;
  }
}

TEST(Reproducible, CountsAddendsByBlock) {
  const std::size_t count = 3 * ReproducibleSum::kBlock;
  const Values ones(count, 1.0F);
  ReproducibleSum sum(count);
  EXPECT_EQ(sum.addends(), 0);
  // Three parts that share no block are one addend of each element.
  for (std::size_t block = 0; block < 3; ++block) {
    sum.add(block * ReproducibleSum::kBlock, std::span(ones).first(ReproducibleSum::kBlock));
  }
  EXPECT_EQ(sum.addends(), 1);
  sum.add(ones);
  EXPECT_EQ(sum.addends(), 2);
  sum.add(0, std::span(ones).first(1));
  sum.add(1, std::span(ones).first(1));
  EXPECT_EQ(sum.addends(), 4);  // never less than the truth, which is 3
  ReproducibleSum other(count);
  other.add(ones);
  other.merge(sum);
  EXPECT_EQ(other.addends(), 5);
  other.reset();
  EXPECT_EQ(other.addends(), 0);
  other.add(5, {});
  EXPECT_EQ(other.addends(), 0);
}

TEST(Reproducible, AsManyAddendsAsPromisedAndThenAnError) {
  // The largest multiple of the grid: nothing fills the integers faster.
  const float value = 0x1.fffffep+17F;
  ASSERT_EQ((std::ilogb(value) + 149 + 1) % 24, 23);
  for (const float sign : {1.0F, -1.0F}) {
    const Values addend = {sign * value, sign};
    ReproducibleSum sum(2);
    Values out(2);
    for (int i = 1; i <= 600; ++i) {  // past what the narrow sums hold
      sum.add(addend);
      ASSERT_TRUE(sum.finish(out).ok());
      ASSERT_EQ(out[0], static_cast<float>(static_cast<double>(addend[0]) * i)) << i;
      ASSERT_EQ(out[1], addend[1] * static_cast<float>(i)) << i;
    }
    sum.reset();
    sum.add(addend);
    for (int doubling = 0; doubling < 16; ++doubling) {
      const ReproducibleSum copy = sum;
      sum.merge(copy);
    }
    EXPECT_EQ(sum.addends(), ReproducibleSum::kMostAddends);
    ASSERT_TRUE(sum.finish(out).ok());
    EXPECT_EQ(out[0], std::ldexp(addend[0], 16));
    EXPECT_EQ(out[1], std::ldexp(addend[1], 16));

    sum.add(addend);
    const auto status = sum.finish(out);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, base::ErrorKind::kInfeasible);
    EXPECT_THAT(status.error().to_string(), ::testing::HasSubstr("65537 addends, at most 65536"));

    std::vector<std::int64_t> packed(2);
    sum.pack(sum.scales(), packed);
    EXPECT_FALSE(unpack(sum.scales(), packed, sum.addends(), out).ok());
  }
}

TEST(Reproducible, ManyInfinitiesAreCountedApart) {
  ReproducibleSum sum(1);
  sum.add(Values{-kInf});
  for (int doubling = 0; doubling < 16; ++doubling) sum.merge(ReproducibleSum(sum));
  EXPECT_EQ(finished(sum), -kInf);
  ReproducibleSum other(1);
  other.add(Values{kInf});
  for (int doubling = 0; doubling < 15; ++doubling) other.merge(ReproducibleSum(other));
  EXPECT_EQ(finished(other), kInf);
}

TEST(Reproducible, AResetSumIsAsNew) {
  for (const int addends : {3, 300}) {
    ReproducibleSum sum(2);
    for (int i = 0; i < addends; ++i) sum.add(Values{1e30F, kNan});
    sum.reset();
    sum.add(Values{1.5F, 2.5F});
    Values out(2);
    ASSERT_TRUE(sum.finish(out).ok());
    EXPECT_EQ(out, (Values{1.5F, 2.5F}));
  }
}

TEST(Reproducible, MisuseIsNotSilent) {
  ReproducibleSum sum(4);
  Values out(3);
  EXPECT_THROW(sum.add(2, Values(3)), base::Failure);
  EXPECT_THROW(sum.add(5, {}), base::Failure);
  EXPECT_THROW(sum.merge(ReproducibleSum(5)), base::Failure);
  EXPECT_THROW(sum.merge(sum), base::Failure);
  EXPECT_THROW(static_cast<void>(sum.finish(out)), base::Failure);
}

}  // namespace
}  // namespace yoke::comm
