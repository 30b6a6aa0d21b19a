#include "yoke/plan/buckets.h"

#include <fmt/format.h>

namespace yoke::plan {

namespace {

using base::input_error;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;

base::Status check(const BucketOptions& options) {
  const auto check_cap = [](base::Bytes cap, const char* field) -> base::Status {
    if (cap.count >= 1) return {};
    return input_error(fmt::format("found a bucket cap of {} bytes, expected at least 1", cap.count), {.field = field});
  };
  YOKE_CHECK(check_cap(options.first_cap, "first_cap"));
  YOKE_CHECK(check_cap(options.cap, "cap"));
  const std::int64_t width = options.element_bytes;
  if (width != 1 && width != 2 && width != 4 && width != 8) {
    return input_error(fmt::format("found elements of {} bytes, expected 1, 2, 4 or 8", width),
                       {.field = "element_bytes"});
  }
  return {};
}

base::Status check(std::span<const Parameter> parameters, std::int64_t element_bytes) {
  std::int64_t left = kMostBytes / element_bytes;
  bool any = false;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    const auto where = [&] { return base::Where{.field = fmt::format("parameters[{}] `{}`", i, parameter.name)}; };
    if (parameter.elements < 0) {
      return input_error(fmt::format("found {} elements, expected 0 or more", parameter.elements), where());
    }
    // Each may cost one alignment more.
    if (parameter.elements > left - kBucketAlignment) {
      return input_error(
          fmt::format("found {} elements: together with those before it more than 2^62 bytes", parameter.elements),
          where());
    }
    left -= parameter.elements + kBucketAlignment;
    any = any || parameter.elements > 0;
  }
  if (!any) {
    return input_error(
        fmt::format("found {} parameters without any element, expected something to reduce", parameters.size()),
        {.field = "parameters"});
  }
  return {};
}

std::int64_t aligned(std::int64_t elements, std::int64_t element_bytes) {
  const std::int64_t step = kBucketAlignment / element_bytes;
  return (elements + step - 1) / step * step;
}

}  // namespace

base::Result<std::vector<Bucket>> cut_into_buckets(std::span<const Parameter> parameters,
                                                   const BucketOptions& options) {
  YOKE_CHECK(check(options));
  YOKE_CHECK(check(parameters, options.element_bytes));

  std::vector<Bucket> buckets(1);
  const auto full_for = [&](std::int64_t more) {
    const std::int64_t cap = (buckets.size() == 1 ? options.first_cap : options.cap).count;
    const std::int64_t bytes = buckets.back().bytes.count;
    return more > 0 && bytes >= cap;
  };
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const std::int64_t elements = parameters[i].elements;
    const std::int64_t bytes = elements * options.element_bytes;
    if (full_for(bytes)) buckets.emplace_back();
    Bucket& bucket = buckets.back();
    bucket.slots.push_back({.parameter = i, .offset = bucket.elements, .elements = elements});
    bucket.elements = aligned(bucket.elements + elements, options.element_bytes);
    bucket.bytes.count += bytes;
  }
  return buckets;
}

profile::BucketProfile to_profile(std::span<const Bucket> buckets) {
  profile::BucketProfile sizes;
  for (const Bucket& bucket : buckets) sizes.mebibytes.push_back(static_cast<double>(bucket.bytes.count) / (1 << 20));
  return sizes;
}

}  // namespace yoke::plan
