#include "tests/comm/scenario.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "yoke/base/rng.h"
#include "yoke/base/units.h"
#include "yoke/comm/dtype.h"
#include "yoke/comm/op.h"
#include "yoke/comm/reproducible/reproducible.h"

namespace yoke::comm::testing {
namespace {

constexpr DType kAllTypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16,
                               DType::kI32, DType::kI64, DType::kU8};

/// A small whole number as one element of a type.
void put(std::byte* at, DType dtype, int value) {
  const auto store = [&](auto typed) { std::memcpy(at, &typed, sizeof(typed)); };
  switch (dtype) {
    case DType::kF32:
      return store(static_cast<float>(value));
    case DType::kF64:
      return store(static_cast<double>(value));
    case DType::kBF16:
      return store(f32_to_bf16(static_cast<float>(value)));
    case DType::kF16:
      return store(f32_to_f16(static_cast<float>(value)));
    case DType::kI32:
      return store(static_cast<std::int32_t>(value));
    case DType::kI64:
      return store(static_cast<std::int64_t>(value));
    case DType::kU8:
      return store(static_cast<std::uint8_t>(value));
  }
}

/// Elements that are easy to predict: element i is `of(i)`.
template <typename Of>
std::vector<std::byte> elements(std::size_t count, DType dtype, Of of) {
  const std::size_t width = size_of(dtype);
  std::vector<std::byte> bytes(count * width);
  for (std::size_t i = 0; i < count; ++i) put(bytes.data() + i * width, dtype, of(i));
  return bytes;
}

class Checks {
 public:
  Checks(Group& group, const base::Clock& clock, base::Duration patience)
      : group_(group), clock_(clock), patience_(patience), rank_(group.rank()), size_(group.size()) {}

  const std::string& problem() const { return problem_; }
  base::Deadline deadline() const { return base::Deadline::in(patience_, clock_); }

  void run(const Op& op, std::string_view what) {
    const auto status = group_.run(op, deadline());
    if (!status.ok()) note(fmt::format("{}: {}", what, status.error().to_string()));
  }
  void expect(bool holds, std::string_view what) {
    if (!holds) note(std::string(what));
  }

  void every_op(std::size_t count, DType dtype) {
    const int n = size_;
    const auto mine = [&](std::size_t i) { return (rank_ + 1) * static_cast<int>(i % 5); };
    const auto sum = [&](std::size_t i) { return n * (n + 1) / 2 * static_cast<int>(i % 5); };
    const std::string of = fmt::format("of {} {}", count, to_string(dtype));
    const std::size_t width = size_of(dtype);

    auto data = elements(count, dtype, mine);
    run(all_reduce(data.data(), count, dtype), "all_reduce sum " + of);
    const auto sums = elements(count, dtype, sum);
    expect(data == sums, "all_reduce sum " + of);

    data = elements(count, dtype, mine);
    run(all_reduce(data.data(), count, dtype, Reduction::kMax), "all_reduce max " + of);
    expect(data == elements(count, dtype, [&](std::size_t i) { return n * static_cast<int>(i % 5); }),
           "all_reduce max " + of);

    const Part part = part_of(count, n, rank_);
    data = elements(count, dtype, mine);
    run(reduce_scatter(data.data(), count, dtype), "reduce_scatter " + of);
    expect(part.count == 0 ||
               std::memcmp(data.data() + part.begin * width, sums.data() + part.begin * width, part.count * width) == 0,
           "reduce_scatter " + of);

    const auto pattern = [](std::size_t i) { return static_cast<int>(i % 127); };
    const auto whole = elements(count, dtype, pattern);
    data = elements(count, dtype, [](std::size_t) { return 99; });
    if (part.count > 0) {
      std::memcpy(data.data() + part.begin * width, whole.data() + part.begin * width, part.count * width);
    }
    run(all_gather(data.data(), count, dtype), "all_gather " + of);
    expect(data == whole, "all_gather " + of);

    for (int root = 0; root < n; root += std::max(1, n - 1)) {
      data = rank_ == root ? whole : elements(count, dtype, [](std::size_t) { return 99; });
      run(broadcast(data.data(), count, dtype, root), fmt::format("broadcast from {} {}", root, of));
      expect(data == whole, fmt::format("broadcast from {} {}", root, of));
    }
    run(barrier(), "barrier");
    if (n > 1) ring_of_messages(count, dtype);
  }

  /// Everyone sends three messages to the right and takes them in another order.
  void ring_of_messages(std::size_t count, DType dtype) {
    const int to = (rank_ + 1) % size_;
    const int from = (rank_ + size_ - 1) % size_;
    const auto content = [](int sender, int tag) {
      return [=](std::size_t i) { return static_cast<int>((i + static_cast<std::size_t>(sender * 3 + tag)) % 100); };
    };
    std::vector<std::vector<std::byte>> out;
    std::vector<std::vector<std::byte>> in(3, std::vector<std::byte>(count * size_of(dtype)));
    std::vector<Handle> handles;
    for (int tag = 0; tag < 3; ++tag) {
      out.push_back(elements(count, dtype, content(rank_, tag)));
      handles.push_back(
          group_.launch(send(out.back().data(), count, dtype, to, static_cast<std::uint32_t>(tag)), deadline()));
    }
    for (const int tag : {2, 0, 1}) {
      handles.push_back(group_.launch(
          receive(in[static_cast<std::size_t>(tag)].data(), count, dtype, from, static_cast<std::uint32_t>(tag)),
          deadline()));
    }
    wait(handles, "messages");
    for (int tag = 0; tag < 3; ++tag) {
      expect(in[static_cast<std::size_t>(tag)] == elements(count, dtype, content(from, tag)),
             fmt::format("message {} of {} {}", tag, count, to_string(dtype)));
    }
  }

  /// Many ops at once: collectives in order, messages beside them.
  void many_at_once() {
    constexpr std::size_t kCount = 5000;
    constexpr int kOps = 6;
    std::vector<std::vector<float>> data(kOps, std::vector<float>(kCount));
    std::vector<Handle> handles;
    for (int i = 0; i < kOps; ++i) {
      auto& one = data[static_cast<std::size_t>(i)];
      one.assign(kCount, static_cast<float>(rank_ + i));
      handles.push_back(group_.launch(all_reduce(std::span(one)), deadline()));
    }
    if (size_ > 1) ring_of_messages(100'000, DType::kF32);
    wait(handles, "launched all_reduce");
    for (int i = 0; i < kOps; ++i) {
      const auto expected = static_cast<float>(size_ * (size_ - 1) / 2 + size_ * i);
      const auto& one = data[static_cast<std::size_t>(i)];
      expect(one == std::vector<float>(kCount, expected), fmt::format("launched all_reduce {}", i));
    }
  }

  /// Sums that are rounded are rounded alike everywhere.
  void same_bits() {
    std::vector<float> data(70'001);
    base::Stream rng({.seed = 7, .worker = static_cast<std::uint32_t>(rank_)});
    for (auto& value : data) value = static_cast<float>(rng.uniform() - 0.5);
    run(all_reduce(std::span(data)), "all_reduce of random numbers");
    auto low = data;
    run(broadcast(std::span(low), 0), "broadcast");
    expect(std::memcmp(low.data(), data.data(), data.size() * sizeof(float)) == 0, "ranks have unlike sums");
  }

  /// The sum of all workers, wherever they are: each worker adds random numbers of its own, dealt to ranks in turn.
  void reproducible() {
    constexpr int kWorkers = 9;
    std::vector<float> here(5'003);
    std::vector<float> alone(5'003);
    ReproducibleSum part(here.size());
    ReproducibleSum whole(here.size());
    for (int worker = 0; worker < kWorkers; ++worker) {
      base::Stream rng({.seed = 11, .worker = static_cast<std::uint32_t>(worker)});
      std::vector<float> values(here.size());
      for (auto& value : values)
        value = std::ldexp(static_cast<float>(rng.uniform() - 0.5), static_cast<int>(rng.below(60)) - 30);
      whole.add(values);
      if (worker % size_ == rank_) part.add(values);
    }
    const auto status = reproducible_all_reduce(part, here, group_, deadline());
    expect(status.ok() && whole.finish(alone).ok(), "reproducible_all_reduce");
    expect(std::memcmp(here.data(), alone.data(), here.size() * sizeof(float)) == 0,
           "a reproducible sum differs from that of one rank");
  }

  void wait(std::vector<Handle>& handles, std::string_view what) {
    for (auto& handle : handles) {
      const auto status = handle.wait();
      if (!status.ok()) note(fmt::format("{}: {}", what, status.error().to_string()));
    }
  }

 private:
  void note(std::string what) {
    if (problem_.empty()) problem_ = fmt::format("rank {}: {}", rank_, what);
  }

  Group& group_;
  const base::Clock& clock_;
  const base::Duration patience_;
  const int rank_;
  const int size_;
  std::string problem_;
};

std::string contract(Group& group, const base::Clock& clock, base::Duration patience) {
  Checks checks(group, clock, patience);
  // Around every size at which some backend changes its way: 16 KiB, 256 KiB buffers, 512 KiB segments, 1 MiB rings.
  for (const std::size_t count : {0UL, 1UL, 2UL, 6UL, 1000UL, 4096UL, 4097UL, 65'537UL, 400'003UL}) {
    checks.every_op(count, DType::kF32);
  }
  for (const DType dtype : kAllTypes) checks.every_op(1025, dtype);
  checks.many_at_once();
  checks.same_bits();
  checks.reproducible();
  auto large = elements(16U << 20U, DType::kF32, [](std::size_t i) { return static_cast<int>(i % 3); });
  checks.run(all_reduce(large.data(), 16U << 20U, DType::kF32), "all_reduce of 64 MiB");
  checks.expect(
      large == elements(16U << 20U, DType::kF32, [&](std::size_t i) { return group.size() * static_cast<int>(i % 3); }),
      "all_reduce of 64 MiB");
  if (!checks.problem().empty()) return checks.problem();
  const auto closed = group.close();
  return closed.ok() ? "" : closed.error().to_string();
}

/// What this process does to itself in the middle of something.
void do_to_self(const std::string& act) {
  if (act == "kill") ::raise(SIGKILL);
  if (act == "stop") ::kill(::getpid(), SIGSTOP);
  if (act == "disconnect") {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      ::shutdown(std::stoi(entry.path().filename()), SHUT_RDWR);
    }
  }
}

std::string report(const Group& group, const base::Status& status, base::Duration took) {
  const auto failure = group.failure();
  if (!failure) return fmt::format("no failure although: {}", status.error().message);
  return fmt::format("failed after {:.3f} s, ranks {}: {}", base::to_seconds(took), fmt::join(failure->ranks, ","),
                     status.error().message);
}

base::Status one_op(const Scenario& scenario, Group& group, std::span<float> data, std::span<float> in,
                    const base::Deadline& deadline) {
  if (scenario.op == "all_reduce") return group.run(all_reduce(data), deadline);
  if (scenario.op == "reduce_scatter") return group.run(reduce_scatter(data), deadline);
  if (scenario.op == "all_gather") return group.run(all_gather(data), deadline);
  if (scenario.op == "broadcast") return group.run(broadcast(data, 0), deadline);
  if (scenario.op == "barrier") return group.run(barrier(), deadline);
  const int to = (group.rank() + 1) % group.size();
  const int from = (group.rank() + group.size() - 1) % group.size();
  if (scenario.op == "threads") {
    base::Status received;
    std::jthread receiver([&] { received = group.launch(receive(in, from), deadline).wait(); });
    const base::Status sent = group.launch(send(std::span<const float>(data), to), deadline).wait();
    receiver.join();
    return sent.ok() ? received : sent;
  }
  auto sent = group.launch(send(std::span<const float>(data), to), deadline);
  auto received = group.launch(receive(in, from), deadline);
  YOKE_CHECK(received.wait());
  return sent.wait();
}

/// Memory that faults whoever touches it after its end.
class Pages {
 public:
  explicit Pages(std::size_t floats)
      : bytes_(floats * sizeof(float)),
        start_(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Pages() { release(); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::span<float> span() const { return {static_cast<float*>(start_), bytes_ / sizeof(float)}; }
  void release() { ::mprotect(start_, bytes_, PROT_NONE); }

 private:
  const std::size_t bytes_;
  void* const start_;
};

/// One op again and again until the group fails, which it must, soon after the victim's act.
std::string loop(const Scenario& scenario, Group& group, const base::Clock& clock) {
  const bool message = scenario.op == "message" || scenario.op == "threads";
  Pages data(message ? 300'000 : 500'000);
  Pages second(data.span().size());
  const auto begin = clock.now();
  std::jthread fate;
  if (group.rank() == scenario.victim) {
    // In the middle of some op: everyone is in the loop by then.
    fate = std::jthread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      do_to_self(scenario.act);
      if (scenario.act == "abort") group.abort("a test wants it");
    });
  }
  while (clock.now() - begin < std::chrono::seconds(60)) {
    const auto start = clock.now();
    const auto status =
        one_op(scenario, group, data.span(), second.span(), base::Deadline::in(scenario.patience, clock));
    if (!status.ok()) {
      data.release();
      second.release();
      const std::string first = report(group, status, clock.now() - start);
      const auto again = group.run(barrier(), base::Deadline::in(scenario.patience, clock));
      if (again.ok() || again.error() != status.error()) return "the error did not stick: " + first;
      return first;
    }
  }
  return "the group did not fail";
}

/// Even and odd ranks each make a group of their own, reversed, and compute in it while messages of another thread
/// travel in the whole group.
std::string subgroups(const Scenario& scenario, Group& group, const base::Clock& clock) {
  const auto deadline = base::Deadline::in(scenario.patience, clock);
  std::vector<int> ranks;
  for (int rank = group.size() - 1; rank >= 0; --rank) {
    if (rank % 2 == group.rank() % 2) ranks.push_back(rank);
  }
  const std::string name = group.rank() % 2 == 0 ? "even" : "odd";
  auto made = group.subgroup(name, ranks, deadline);
  if (!made.ok()) return made.error().to_string();
  Group& part = **made;
  const auto place = static_cast<int>(std::ranges::find(ranks, group.rank()) - ranks.begin());
  if (part.rank() != place || part.size() != static_cast<int>(ranks.size())) return "another place than asked for";

  const int to = (group.rank() + 1) % group.size();
  const int from = (group.rank() + group.size() - 1) % group.size();
  std::string problem;
  std::jthread receiver([&] {
    for (int i = 0; i < 50; ++i) {
      std::vector<std::int64_t> in(static_cast<std::size_t>(1 + i * 997));
      const auto status = group.launch(receive(std::span(in), from, 7), deadline).wait();
      if (!status.ok()) problem = status.error().to_string();
      if (in.back() != 1000 * from + i) problem = fmt::format("message {} is wrong", i);
    }
  });
  const auto compute = [&]() -> base::Status {
    int sum = 0;
    for (const int rank : ranks) sum += rank;
    for (int i = 0; i < 50; ++i) {
      const std::vector<std::int64_t> out(static_cast<std::size_t>(1 + i * 997), 1000 * group.rank() + i);
      auto sent = group.launch(send(std::span<const std::int64_t>(out), to, 7), deadline);
      std::vector<std::int64_t> data(10'000, group.rank());
      YOKE_CHECK(part.run(all_reduce(std::span(data)), deadline));
      if (data.front() != sum || data.back() != sum) return base::input_error("a wrong sum in the subgroup");
      YOKE_CHECK(group.run(barrier(), deadline));
      YOKE_CHECK(sent.wait());
    }
    return part.close();
  };
  const auto computed = compute();
  receiver.join();
  if (!computed.ok()) return computed.error().to_string();
  if (!problem.empty()) return problem;
  const auto closed = group.close();
  return closed.ok() ? "" : closed.error().to_string();
}

/// The victim calls something else than the others.
std::string mismatch_of(const Scenario& scenario, Group& group, const base::Clock& clock) {
  const bool odd = group.rank() == scenario.victim;
  std::vector<float> data(100'001);
  const auto deadline = base::Deadline::in(scenario.patience, clock);
  const auto start = clock.now();
  base::Status status;
  if (scenario.act == "count") {
    status = group.run(all_reduce(std::span(data).first(odd ? 100'001 : 100'000)), deadline);
  } else if (scenario.act == "small count") {
    status = group.run(all_reduce(std::span(data).first(odd ? 11 : 10)), deadline);
  } else if (scenario.act == "dtype") {
    auto* bytes = reinterpret_cast<std::byte*>(data.data());
    status = group.run(all_reduce(bytes, 1000, odd ? DType::kI32 : DType::kF32), deadline);
  } else if (scenario.act == "kind") {
    status = odd ? group.run(barrier(), deadline) : group.run(all_gather(std::span(data)), deadline);
  } else if (scenario.act == "root") {
    status = group.run(broadcast(std::span(data), odd ? 1 : 0), deadline);
  } else {  // message
    if (group.rank() == 0) status = group.run(send(std::span<const float>(data).first(10), 1), deadline);
    if (group.rank() == 1) status = group.run(receive(std::span(data).first(11), 0), deadline);
  }
  // A rank that was not concerned hears of it at its next call.
  if (status.ok()) status = group.run(barrier(), deadline);
  return status.ok() ? "the disagreement was not noticed" : report(group, status, clock.now() - start);
}

}  // namespace

std::string play(const Scenario& scenario, Group& group, const base::Clock& clock) {
  if (scenario.name == "contract") return contract(group, clock, scenario.patience);
  if (scenario.name == "loop") return loop(scenario, group, clock);
  if (scenario.name == "subgroups") return subgroups(scenario, group, clock);
  if (scenario.name == "mismatch") return mismatch_of(scenario, group, clock);
  if (scenario.name == "leave") {
    const auto start = clock.now();
    if (group.rank() == scenario.victim) {
      const auto closed = group.close();
      return closed.ok() ? "" : closed.error().to_string();
    }
    const auto status = group.run(barrier(), base::Deadline::in(scenario.patience, clock));
    return status.ok() ? "a rank that had left took part" : report(group, status, clock.now() - start);
  }
  if (scenario.name == "absent") {
    // Alive, but busy with something else.
    const auto start = clock.now();
    if (group.rank() == scenario.victim) {
      while (!group.failure() && clock.now() - start < std::chrono::seconds(10)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
    const auto status = group.run(barrier(), base::Deadline::in(scenario.patience, clock));
    return status.ok() ? "nobody was missed" : report(group, status, clock.now() - start);
  }
  return "unknown scenario " + scenario.name;
}

}  // namespace yoke::comm::testing
