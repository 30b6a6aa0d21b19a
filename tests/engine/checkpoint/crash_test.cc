// A process that saves is killed: at random moments, and before each of its system calls in turn.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>

#include "tests/engine/checkpoint/samples.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"
#include "yoke/base/files.h"
#include "yoke/engine/checkpoint/checkpoint.h"

namespace yoke::engine {
namespace {

using ::testing::IsEmpty;
using testing::same;
using testing::sample;
using yoke::testing::fork_child;
using yoke::testing::TempFolder;

/// `times` says how often the step was saved before; a step that is saved again has other content.
Checkpoint nth_sample(std::int64_t step, std::int64_t times, std::int64_t elements) {
  Checkpoint checkpoint = sample(step, elements);
  checkpoint.meta.updates = times;
  checkpoint.weights[0].second = testing::counted({elements}, torch::kFloat32, step + 100 * times);
  return checkpoint;
}

/// Long enough for a process to begin a few saves, also where a sanitizer makes them slow.
std::chrono::microseconds time_for_saves(std::int64_t elements) {
  const TempFolder folder;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(save_checkpoint(folder.path(), nth_sample(1, 0, elements), 1).ok());
  const auto took = std::chrono::steady_clock::now() - begin;
  return std::max(std::chrono::microseconds(60'000), std::chrono::duration_cast<std::chrono::microseconds>(3 * took));
}

TEST(CheckpointCrash, KilledAtRandomMomentsTheLastGoodOneIsThere) {
  constexpr int kKills = 80;
  constexpr std::int64_t kElements = 60'000;
  const auto longest = static_cast<unsigned>(time_for_saves(kElements).count());
  const TempFolder folder;
  std::mt19937 random(20);
  std::int64_t first = 1;
  int in_the_middle = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    // Saves the steps one after another, each twice, and announces each when it is saved.
    const pid_t child = fork_child([&] {
      for (std::int64_t i = 0;; ++i) {
        const std::int64_t announced[] = {first + i / 2, i % 2};
        if (!save_checkpoint(folder.path(), nth_sample(announced[0], announced[1], kElements), 2).ok()) ::_exit(1);
        if (::write(ends[1], announced, sizeof(announced)) != sizeof(announced)) ::_exit(2);
      }
    });
    ::close(ends[1]);
    ::usleep(static_cast<useconds_t>(random() % longest));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "a save failed: " << status;
    std::pair<std::int64_t, std::int64_t> last{0, 0};
    std::int64_t announced[2];
    while (::read(ends[0], announced, sizeof(announced)) == sizeof(announced)) last = {announced[0], announced[1]};
    ::close(ends[0]);

    std::vector<std::string> warnings;
    const auto loaded = load_newest(folder.path(), warnings);
    ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
    EXPECT_THAT(warnings, IsEmpty()) << "all that can be seen is whole";
    const std::vector<std::string> names = *base::list_folder(folder.path());
    for (const auto& name : names) in_the_middle += name.starts_with(".tmp-");
    if (!*loaded) {
      EXPECT_EQ(last.first, 0) << "one was announced but none is there";
      continue;
    }
    const CheckpointMeta& meta = (*loaded)->meta;
    EXPECT_TRUE(same(**loaded, nth_sample(meta.cursor.step, meta.updates, kElements))) << "a mix of two";
    EXPECT_GE(std::pair(meta.cursor.step, meta.updates), last) << "older than what was announced";
    EXPECT_GE(meta.cursor.step, first - 1) << "older than what was there before";
    first = meta.cursor.step + 1;
  }
  EXPECT_GT(in_the_middle, kKills / 4) << "too few were killed while they saved";
  ASSERT_TRUE(save_checkpoint(folder.path(), sample(first), 1).ok());
  EXPECT_EQ(base::list_folder(folder.path())->size(), 1U) << "the next save clears away what the dead left";
}

/// Lets the child run to its n-th system call and kills it there. False if it had ended before, true if it was killed.
bool kill_before_call(pid_t child, int n) {
  int status = 0;
  ::waitpid(child, &status, 0);
  for (int call = 0; WIFSTOPPED(status); ++call) {
    if (call == 2 * n) {  // it stops on the way in and on the way out
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return true;
    }
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return false;
}

/// Kills a save before each of its system calls in turn. There is one of step 1 already, and only one is kept; the save
/// is of `step`. Afterwards the old one is whole or the new one is, without a warning, and the next save leaves no
/// trace of it all.
void kill_before_every_call(std::int64_t step) {
  constexpr std::int64_t kElements = 100;
  const Checkpoint before = nth_sample(1, 0, kElements);
  const Checkpoint after = nth_sample(step, 1, kElements);
  // In memory where there is such a folder: hundreds of saves, and none need outlast the power.
  const std::filesystem::path memory = "/dev/shm";
  const auto parent = std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path();
  bool killed = true;
  int old_ones = 0;
  int new_ones = 0;
  for (int n = 1; killed; ++n) {
    SCOPED_TRACE(fmt::format("before system call {}", n));
    ASSERT_LT(n, 1000);
    const TempFolder folder(parent);
    ASSERT_TRUE(save_checkpoint(folder.path(), before, 1).ok());
    const pid_t child = fork_child([&] {
      if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(3);
      ::raise(SIGSTOP);
      if (!save_checkpoint(folder.path(), after, 1).ok()) ::_exit(1);
    });
    killed = kill_before_call(child, n);

    std::vector<std::string> warnings;
    const auto loaded = load_newest(folder.path(), warnings);
    ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
    ASSERT_TRUE(loaded->has_value());
    EXPECT_THAT(warnings, IsEmpty());
    old_ones += same(**loaded, before);
    new_ones += same(**loaded, after);
    EXPECT_EQ(old_ones + new_ones, n) << "neither the old one nor the new one";
    EXPECT_TRUE(killed || same(**loaded, after));

    ASSERT_TRUE(save_checkpoint(folder.path(), sample(7), 1).ok());
    EXPECT_THAT(*base::list_folder(folder.path()), ::testing::ElementsAre("step-000000007"));
  }
  EXPECT_GT(old_ones, 20);
  EXPECT_GT(new_ones, 3);
}

bool may_trace() {
  const pid_t child = fork_child([] { ::_exit(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? 0 : 3); });
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(CheckpointCrash, KilledBeforeEverySystemCallOfASave) {
  if (!may_trace()) GTEST_SKIP() << "may not trace a child";
  kill_before_every_call(2);
}

TEST(CheckpointCrash, KilledBeforeEverySystemCallOfAReplacement) {
  if (!may_trace()) GTEST_SKIP() << "may not trace a child";
  kill_before_every_call(1);
}

}  // namespace
}  // namespace yoke::engine
