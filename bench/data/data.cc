// How fast the input pipeline is on one core:
//   bench_data [--rounds 7]
// Prints one JSON object. Fashion-MNIST from memory to batches; JPEG files to pixels by us and by libturbojpeg alone,
// in turns over the same files; the whole way of an image to a sample for training and for evaluation. The images are
// made up on the spot: 500 x 375, as those of ImageNet, quality 90. Seconds are those of the processor that the one
// thread used, so that other work on the machine counts little; figures are medians over the rounds.
#include <fmt/format.h>
#include <time.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tests/data/pictures.h"
#include "tests/support/temp_folder.h"
#include "yoke/base/files.h"
#include "yoke/data/dataset.h"
#include "yoke/data/decode.h"
#include "yoke/data/sampler.h"

namespace {

using namespace yoke;

constexpr int kWidth = 500, kHeight = 375, kImages = 64;

double processor_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

double seconds(const std::function<void()>& work) {
  const double start = processor_seconds();
  work();
  return processor_seconds() - start;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Samples a second of batches of 128 in the sampler's order, an epoch or a part of it in each round.
double samples_per_second(const data::Dataset& dataset, std::int64_t samples, bool augment, int rounds) {
  const data::Sampler sampler(dataset.info().size, 1);
  std::vector<double> rates;
  for (int round = 0; round < rounds; ++round) {
    std::int64_t loaded = 0;
    const double time = seconds([&] {
      data::Cursor cursor{.epoch = static_cast<std::uint32_t>(round)};
      for (const data::StepShape step{.workers = 1, .lbs = 128}; loaded < samples;
           cursor = sampler.advance(cursor, step)) {
        const base::StreamName draw{.epoch = cursor.epoch, .step = static_cast<std::uint64_t>(cursor.step)};
        const auto indices = sampler.samples(cursor, step, 0);
        loaded += dataset.load(indices, augment ? std::optional(draw) : std::nullopt).value().samples;
      }
    });
    rates.push_back(static_cast<double>(loaded) / time);
  }
  return median(rates);
}

std::string fashion_mnist(int rounds) {
  const auto opened = data::open_dataset({.name = "fashion-mnist"});
  if (!opened.ok()) return R"({"missing":"dataset-fashion-mnist"})";
  return fmt::format(R"({{"samples_per_second":{:.0f}}})", samples_per_second(**opened, 60'000, true, rounds));
}

/// What a program that knows nothing but libturbojpeg would do with files that lie in memory.
void decode_bare(const std::vector<std::string>& files) {
  const tjhandle handle = ::tjInitDecompress();
  std::vector<unsigned char> rgb(std::size_t{3} * kWidth * kHeight);
  for (const std::string& file : files) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
    int width = 0, height = 0, subsampling = 0, colours = 0;
    ::tjDecompressHeader3(handle, bytes, file.size(), &width, &height, &subsampling, &colours);
    ::tjDecompress2(handle, bytes, file.size(), rgb.data(), width, 0, height, TJPF_RGB, 0);
  }
  ::tjDestroy(handle);
}

void decode_ours(const std::vector<std::string>& paths) {
  data::ImageDecoder decoder;
  for (const std::string& path : paths) {
    const std::string bytes = base::read_file(path).value();
    decoder.open(bytes, path).value();
    decoder.decode().value();
  }
}

std::string images(int rounds) {
  const testing::TempFolder folder;
  std::vector<std::string> files, paths;
  for (int i = 0; i < kImages; ++i) {
    files.push_back(testing::to_jpeg(testing::make_picture(kWidth, kHeight, 3, static_cast<std::uint64_t>(i), 24)));
    for (const char* split : {"train", "val"}) {
      paths.push_back(folder.write(fmt::format("{}/class{}/{}.jpg", split, i % 8, i), files.back()));
    }
    paths.pop_back();
  }
  std::vector<double> bare, ours, ratios;
  for (int round = 0; round < 3 * rounds; ++round) {
    bare.push_back(seconds([&] { decode_bare(files); }));
    ours.push_back(seconds([&] { decode_ours(paths); }));
    ratios.push_back(ours.back() / bare.back());
  }
  const auto rate_of = [&](data::Split split) {
    const auto dataset = data::open_dataset({.name = "imagenet", .path = folder.path(), .split = split}).value();
    return samples_per_second(*dataset, 256, split == data::Split::kTrain, rounds);
  };
  std::size_t bytes = 0;
  for (const std::string& file : files) bytes += file.size();
  return fmt::format(
      R"({{"width":{},"height":{},"bytes_per_image":{},"decode_images_per_second":{:.0f},)"
      R"("libturbojpeg_images_per_second":{:.0f},"time_against_libturbojpeg":{:.3f},"train_images_per_second":{:.0f},)"
      R"("test_images_per_second":{:.0f}}})",
      kWidth, kHeight, bytes / files.size(), kImages / median(ours), kImages / median(bare), median(ratios),
      rate_of(data::Split::kTrain), rate_of(data::Split::kTest));
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 7;
  if (argc == 3 && std::string(argv[1]) == "--rounds") rounds = std::atoi(argv[2]);
  if ((argc != 1 && argc != 3) || rounds < 1) {
    std::fputs("usage: bench_data [--rounds N]\n", stderr);
    return 2;
  }
  fmt::print("{{\"fashion_mnist\":{},\"jpeg\":{}}}\n", fashion_mnist(rounds), images(rounds));
  return 0;
}
