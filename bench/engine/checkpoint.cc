// Saving and loading checkpoints of one size: bench_checkpoint <folder> [megabytes] [runs]. Prints one JSON object with
// the best rates of the runs, in MB/s. Loading is from the page cache.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "yoke/base/json.h"
#include "yoke/engine/checkpoint/checkpoint.h"

int main(int count, char** words) {
  using namespace yoke;
  if (count < 2) {
    std::fprintf(stderr, "usage: bench_checkpoint <folder> [megabytes] [runs]\n");
    return 2;
  }
  const std::string folder = std::string(words[1]) + "/bench-checkpoints";
  const std::int64_t megabytes = count > 2 ? std::atoll(words[2]) : 500;
  const int runs = count > 3 ? std::atoi(words[3]) : 3;
  constexpr std::int64_t kTensorElements = 1'000'000;
  engine::Checkpoint checkpoint;
  for (std::int64_t i = 0; i < megabytes / 8; ++i) {
    checkpoint.weights.emplace_back("w" + std::to_string(i), torch::randn({kTensorElements}));
    checkpoint.optimizer.emplace_back("momentum.w" + std::to_string(i), torch::randn({kTensorElements}));
  }
  const double total = static_cast<double>(checkpoint.weights.size()) * 2 * 4 * kTensorElements / 1e6;
  const auto timed = [](auto work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  double save = 0;
  double load = 0;
  double sum = 0;
  for (int run = 0; run < runs; ++run) {
    checkpoint.meta.cursor.step = run;
    std::string path;
    save = std::max(save, total / timed([&] { path = engine::save_checkpoint(folder, checkpoint, 1).value(); }));
    load = std::max(load, total / timed([&] { (void)engine::load_checkpoint(path).value(); }));
    sum = std::max(sum, total / 2 / timed([&] { (void)engine::weights_sha256(checkpoint.weights); }));
  }
  std::filesystem::remove_all(folder);
  const base::Json json{{"megabytes", total}, {"save", save}, {"load", load}, {"weights_sha256", sum}};
  std::printf("%s\n", json.dump().c_str());
  return 0;
}
