#include "yoke/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <cstring>
#include <numeric>

#include "tests/data/pictures.h"
#include "tests/support/files.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "yoke/data/idx.h"

namespace yoke::data {
namespace {

using ::testing::ElementsAre;
using ::yoke::testing::expect_input_error;
using ::yoke::testing::make_picture;
using ::yoke::testing::Picture;
using ::yoke::testing::TempFolder;
using ::yoke::testing::to_jpeg;
using ::yoke::testing::to_png;

constexpr base::StreamName kDraw{.seed = 1, .epoch = 2, .step = 3, .worker = 4, .purpose = base::Purpose::kAugment};

std::vector<std::int64_t> up_to(std::int64_t count) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

std::vector<float> values(const Batch& batch) {
  const torch::Tensor& x = batch.tensors.at(0).second;
  return {x.data_ptr<float>(), x.data_ptr<float>() + x.numel()};
}

std::vector<std::int64_t> targets(const Batch& batch) {
  const torch::Tensor& classes = batch.tensors.at(1).second;
  return {classes.data_ptr<std::int64_t>(), classes.data_ptr<std::int64_t>() + classes.numel()};
}

std::vector<std::int64_t> shape(const Batch& batch) {
  return batch.tensors.at(0).second.sizes().vec();
}

void expect_well_formed(const Batch& batch, const DatasetInfo& dataset) {
  ASSERT_EQ(batch.tensors.size(), 2U);
  EXPECT_EQ(batch.tensors[0].first, "x");
  EXPECT_EQ(batch.tensors[0].second.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(batch.tensors[0].second.is_contiguous());
  EXPECT_EQ(batch.tensors[1].first, "targets");
  EXPECT_EQ(batch.tensors[1].second.scalar_type(), torch::kInt64);
  std::vector<std::int64_t> expected{batch.samples};
  expected.insert(expected.end(), dataset.input_shape.begin(), dataset.input_shape.end());
  EXPECT_EQ(shape(batch), expected);
  EXPECT_EQ(batch.tensors[1].second.sizes().vec(), std::vector<std::int64_t>{batch.samples});
}

std::string idx_file(const std::vector<std::int64_t>& extents, const std::string& content) {
  std::string bytes{0, 0, 8, static_cast<char>(extents.size())};
  for (const std::int64_t extent : extents) {
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(extent >> shift);
  }
  return bytes + content;
}

std::string gzip(const std::string& bytes) {
  z_stream stream{};
  ::deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(::deflateBound(&stream, bytes.size()) + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ::deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

TEST(Idx, PackedOrNotOrInParts) {
  const std::string file = idx_file({2, 3}, "abcdef");
  for (const std::string& bytes : {file, gzip(file), gzip(file.substr(0, 7)) + gzip(file.substr(7))}) {
    const Idx idx = parse_idx(bytes, "f").value();
    EXPECT_THAT(idx.shape, ElementsAre(2, 3));
    EXPECT_THAT(idx.values, ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
  }
}

TEST(Idx, LargerThanAnyBufferOnTheWay) {
  const std::string content(5'000'000, 'x');
  EXPECT_EQ(parse_idx(gzip(idx_file({5'000'000}, content)), "f").value().values.size(), content.size());
}

TEST(Idx, DamageIsNamed) {
  const std::string file = idx_file({2, 3}, "abcdef");
  expect_input_error(parse_idx("", "f"), "f: found 0 bytes, expected at least the 4 of an IDX header");
  expect_input_error(parse_idx("\x7f" + file, "f"), "f: found the magic number 0x7f000008, expected 0x000008NN");
  expect_input_error(parse_idx(idx_file({}, ""), "f"), "found the magic number 0x00000800");
  expect_input_error(parse_idx(file.substr(0, 9), "f"), "found 9 bytes, expected a header of 12");
  expect_input_error(parse_idx(file.substr(0, 15), "f"), "found 3 values, expected 6 by the header (2 x 3)");
  expect_input_error(parse_idx(file + "g", "f"), "found 7 values, expected 6");
  expect_input_error(parse_idx(idx_file({0}, ""), "f"), "dimension 0 is 0");
  expect_input_error(parse_idx(idx_file({1 << 30, 1 << 30, 1 << 30}, ""), "f"), "asks for more than");
  const std::string packed = gzip(file);
  expect_input_error(parse_idx(packed.substr(0, packed.size() - 9), "f"), "f: the gzip data ends too early, after");
  std::string damaged = packed;
  damaged[damaged.size() - 6] ^= 1;  // in the checksum
  expect_input_error(parse_idx(damaged, "f"), "f: the gzip data is damaged (incorrect data check)");
  expect_input_error(parse_idx(packed + "junk", "f"), "the gzip data is damaged (incorrect header check)");
}

/// A folder with Fashion-MNIST's files for training: image i has the byte 10 * i everywhere but in its first pixel.
void write_fashion(const TempFolder& folder, int count) {
  std::string images, labels;
  for (int i = 0; i < count; ++i) {
    std::string image(28 * 28, static_cast<char>(10 * i));
    image[0] = static_cast<char>(255);
    images += image;
    labels += static_cast<char>(9 - i);
  }
  folder.write("train-images-idx3-ubyte.gz", gzip(idx_file({count, 28, 28}, images)));
  folder.write("train-labels-idx1-ubyte", idx_file({count}, labels));
}

TEST(FashionMnist, ByHand) {
  TempFolder folder;
  write_fashion(folder, 4);
  const auto dataset = open_dataset({.name = "fashion-mnist", .path = folder.path()}).value();
  EXPECT_EQ(dataset->info().size, 4);
  EXPECT_EQ(dataset->info().classes, 10);
  const Batch batch = dataset->load(std::vector<std::int64_t>{3, 0, 3}, kDraw).value();
  expect_well_formed(batch, dataset->info());
  EXPECT_THAT(targets(batch), ElementsAre(6, 9, 6));
  const auto x = values(batch);
  EXPECT_NEAR(x[0], (1 - 0.2860) / 0.3530, 1e-6);
  EXPECT_NEAR(x[1], (30 / 255.0 - 0.2860) / 0.3530, 1e-6);
  EXPECT_NEAR(x[784 + 1], -0.2860 / 0.3530, 1e-6);
  EXPECT_NEAR(x[3 * 784 - 1], (30 / 255.0 - 0.2860) / 0.3530, 1e-6);
  EXPECT_EQ(dataset->load({}, {}).value().samples, 0);
  EXPECT_THROW(static_cast<void>(dataset->load(std::vector<std::int64_t>{4}, {})), base::Failure);
}

TEST(FashionMnist, LimitTakesTheFirst) {
  TempFolder folder;
  write_fashion(folder, 4);
  const auto open = [&](std::int64_t limit) {
    return open_dataset({.name = "fashion-mnist", .path = folder.path(), .limit = limit});
  };
  EXPECT_EQ(open(2).value()->info().size, 2);
  EXPECT_THAT(targets(open(2).value()->load(up_to(2), {}).value()), ElementsAre(9, 8));
  EXPECT_EQ(open(100).value()->info().size, 4);
  expect_input_error(open(0), "data.limit: found 0, expected at least 1 sample");
}

TEST(FashionMnist, WhatIsWrongIsNamed) {
  TempFolder folder;
  const auto open = [&](Split split = Split::kTrain) {
    return open_dataset({.name = "fashion-mnist", .path = folder.path(), .split = split});
  };
  expect_input_error(open(), folder.path() +
                                 ": found no Fashion-MNIST file train-images-idx3-ubyte.gz here; install it "
                                 "with `apt-get install dataset-fashion-mnist`, or give");
  expect_input_error(open_dataset({.name = "fashion-mnist", .path = "/nowhere"}), "/nowhere: found no Fashion-MNIST");
  write_fashion(folder, 2);
  EXPECT_TRUE(open().ok());
  expect_input_error(open(Split::kTest), "found no Fashion-MNIST file t10k-images-idx3-ubyte.gz");
  const std::string labels = folder.file("train-labels-idx1-ubyte");
  folder.write("train-labels-idx1-ubyte", idx_file({3}, "\1\2\3"));
  expect_input_error(open(), labels + ": found 3 labels, expected 2: one for each image in " + folder.path());
  folder.write("train-labels-idx1-ubyte", idx_file({2}, "\1\12"));
  expect_input_error(open(), labels + ": label 1 is 10, expected 0 to 9");
  folder.write("train-labels-idx1-ubyte", idx_file({1, 2}, "\1\2"));
  expect_input_error(open(), labels + ": found 2 dimensions, expected the 1 of labels");
  folder.write("train-labels-idx1-ubyte", "not idx");
  expect_input_error(open(), labels + ": found the magic number 0x6e6f7420");
  folder.write("train-images-idx3-ubyte.gz", gzip(idx_file({1, 2, 2}, "abcd")));
  folder.write("train-labels-idx1-ubyte", idx_file({1}, "\1"));
  expect_input_error(open(), "train-images-idx3-ubyte.gz: found an array of 1 x 2 x 2, expected images of 28 x 28");
}

TEST(FashionMnist, TheRealOne) {
  if (!base::exists("/usr/share/datasets/fashion-mnist")) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  for (const Split split : {Split::kTrain, Split::kTest}) {
    const auto dataset = open_dataset({.name = "fashion-mnist", .split = split}).value();
    const std::int64_t size = split == Split::kTrain ? 60'000 : 10'000;
    ASSERT_EQ(dataset->info().size, size);
    const Batch batch = dataset->load(up_to(size), {}).value();
    double sum = 0, squares = 0;
    const auto x = values(batch);
    for (const float value : x) {
      sum += value;
      squares += static_cast<double>(value) * value;
    }
    const double mean = sum / static_cast<double>(x.size());
    EXPECT_NEAR(mean, 0, split == Split::kTrain ? 1e-3 : 1e-2);
    EXPECT_NEAR(squares / static_cast<double>(x.size()) - mean * mean, 1, split == Split::kTrain ? 1e-3 : 1e-2);
    std::array<std::int64_t, 10> counts{};
    for (const std::int64_t target : targets(batch)) ++counts.at(static_cast<std::size_t>(target));
    EXPECT_THAT(counts, ::testing::Each(size / 10));
    EXPECT_EQ(targets(batch)[0], 9) << "both sets begin with an ankle boot";
  }
}

TEST(Synthetic, OfAnyShape) {
  for (const std::vector<std::int64_t>& extents : {std::vector<std::int64_t>{1}, {7, 3}, {3, 200, 200}}) {
    const auto dataset = open_dataset({.name = "synthetic", .limit = 40, .shape = extents, .classes = 5}).value();
    EXPECT_EQ(dataset->info().size, 40);
    EXPECT_EQ(dataset->info().classes, 5);
    const Batch batch = dataset->load(up_to(40), kDraw).value();
    expect_well_formed(batch, dataset->info());
    EXPECT_THAT(targets(batch), ::testing::Each(::testing::AllOf(::testing::Ge(0), ::testing::Lt(5))));
    EXPECT_THAT(targets(batch), ::testing::Contains(::testing::Ne(targets(batch)[0])));
  }
}

TEST(Synthetic, DependsOnTheIndexAlone) {
  const DatasetOptions options{.name = "synthetic", .limit = 50, .shape = {3, 10}, .classes = 1000};
  const auto dataset = open_dataset(options).value();
  const Batch all = dataset->load(up_to(50), {}).value();
  const Batch some = open_dataset(options).value()->load(std::vector<std::int64_t>{7, 3}, kDraw).value();
  const auto expected = values(all), found = values(some);
  EXPECT_TRUE(std::equal(found.begin(), found.begin() + 30, expected.begin() + 210));
  EXPECT_TRUE(std::equal(found.begin() + 30, found.end(), expected.begin() + 90));
  EXPECT_EQ(targets(some)[0], targets(all)[7]);
  DatasetOptions other = options;
  other.split = Split::kTest;
  EXPECT_NE(values(open_dataset(other).value()->load(up_to(50), {}).value()), expected);
  double sum = 0, squares = 0;
  for (const float value : expected) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  EXPECT_NEAR(sum / 1500, 0, 0.15);
  EXPECT_NEAR(squares / 1500, 1, 0.2);
}

TEST(Synthetic, DefaultsAndWhatIsWrong) {
  const auto train = open_dataset({.name = "synthetic", .image = 32}).value();
  EXPECT_EQ(train->info().size, 1024);
  EXPECT_EQ(train->info().classes, 1000);
  EXPECT_THAT(train->info().input_shape, ElementsAre(3, 32, 32));
  EXPECT_EQ(open_dataset({.name = "synthetic", .split = Split::kTest}).value()->info().size, 256);
  expect_input_error(open_dataset({.name = "synthetic", .path = "/x"}), "data.path: synthetic data has no files");
  expect_input_error(open_dataset({.name = "synthetic", .shape = {3, 0}}), "data.shape: found a dimension of 0");
  expect_input_error(open_dataset({.name = "synthetic", .shape = {1 << 20, 1 << 20}}), "data.shape: found a sample");
  expect_input_error(open_dataset({.name = "synthetic", .classes = 0}), "data.classes: found 0 classes");
}

TEST(Datasets, AnUnknownNameAndTheNearest) {
  EXPECT_THAT(list_datasets(), ElementsAre("fashion-mnist", "image-folder", "imagenet", "synthetic"));
  expect_input_error(
      open_dataset({.name = "fasion-mnist"}),
      "data.name: found `fasion-mnist`, expected fashion-mnist, image-folder, imagenet or synthetic, did "
      "you mean `fashion-mnist`?");
}

TEST(Datasets, WhatTheModelExpectsMustBeThere) {
  TempFolder folder;
  write_fashion(folder, 1);
  expect_input_error(open_dataset({.name = "fashion-mnist", .path = folder.path(), .classes = 1000}),
                     "data.classes: fashion-mnist has 10 classes, expected 1000");
  expect_input_error(open_dataset({.name = "fashion-mnist", .path = folder.path(), .shape = {3, 224, 224}}),
                     "data.shape: fashion-mnist has samples of 1 x 28 x 28, expected 3 x 224 x 224");
  EXPECT_TRUE(open_dataset({.name = "fashion-mnist", .path = folder.path(), .shape = {1, 28, 28}, .classes = 10}).ok());
}

class ImageFolder : public ::testing::Test {
 protected:
  ImageFolder() {
    folder.write("train/cat/b.JPG", to_jpeg(make_picture(50, 40, 3, 1)));
    folder.write("train/cat/a.jpeg", to_png(make_picture(40, 50, 3, 2)));  // the content decides, not the name
    folder.write("train/cat/notes.txt", "not an image");
    folder.write("train/ant/only.Png", to_png(make_picture(60, 60, 3, 3)));
    folder.write("train/dog/x.jpg", to_jpeg(make_picture(90, 64, 3, 4)));
    folder.write("train/README", "not a class");
  }
  base::Result<std::unique_ptr<Dataset>> open(Split split = Split::kTrain, Corrupt corrupt = Corrupt::kStop) {
    return open_dataset(
        {.name = "image-folder", .path = folder.path(), .split = split, .image = 32, .resize = 36, .corrupt = corrupt});
  }

  TempFolder folder;
};

TEST_F(ImageFolder, ClassesAndFilesInTheOrderOfTheirNames) {
  const auto dataset = open().value();
  EXPECT_EQ(dataset->info().size, 4);
  EXPECT_EQ(dataset->info().classes, 3);
  const Batch batch = dataset->load(up_to(4), {}).value();
  expect_well_formed(batch, dataset->info());
  EXPECT_THAT(targets(batch), ElementsAre(0, 1, 1, 2));
  EXPECT_EQ(batch.samples, 4);
  EXPECT_EQ(batch.skipped, 0);
  // a.jpeg before b.JPG: alone, each gives what it gives in company.
  const auto all = values(batch), b = values(dataset->load(std::vector<std::int64_t>{2}, {}).value());
  EXPECT_TRUE(std::equal(b.begin(), b.end(), all.begin() + 2 * 3 * 32 * 32));
}

TEST_F(ImageFolder, AugmentationDependsOnTheStreamAndThePlace) {
  const auto dataset = open().value();
  const auto batch = [&](std::vector<std::int64_t> indices, std::optional<base::StreamName> draw) {
    return values(dataset->load(indices, draw).value());
  };
  const auto one = batch({0, 1, 3}, kDraw);
  EXPECT_EQ(one, batch({0, 1, 3}, kDraw));
  base::StreamName next = kDraw;
  next.step = 99;
  EXPECT_NE(one, batch({0, 1, 3}, next));
  EXPECT_NE(one, batch({0, 1, 3}, {}));
  const auto other = batch({2, 1, 0}, kDraw);
  const std::ptrdiff_t sample = 3 * 32 * 32;
  EXPECT_TRUE(std::equal(one.begin() + sample, one.begin() + 2 * sample, other.begin() + sample));
  EXPECT_FALSE(std::equal(one.begin(), one.begin() + sample, other.begin() + 2 * sample)) << "the same crop";
}

TEST_F(ImageFolder, CorruptImagesStopOrAreCounted) {
  const auto whole = values(open().value()->load(up_to(4), kDraw).value());
  const std::string path = folder.file("train/cat/b.JPG");
  const std::string intact = testing::read_text(path);
  folder.write("train/cat/b.JPG", intact.substr(0, intact.size() / 2));
  expect_input_error(open().value()->load(up_to(4), kDraw), path + ": cannot decode this JPEG");
  const auto dataset = open(Split::kTrain, Corrupt::kSkip).value();
  EXPECT_EQ(dataset->info().size, 4) << "opening reads no files";
  const Batch batch = dataset->load(up_to(4), kDraw).value();
  expect_well_formed(batch, dataset->info());
  EXPECT_EQ(batch.samples, 3);
  EXPECT_EQ(batch.skipped, 1);
  EXPECT_THAT(targets(batch), ElementsAre(0, 1, 2));
  const auto x = values(batch);
  EXPECT_TRUE(std::equal(x.begin() + 2 * 3 * 32 * 32, x.end(), whole.begin() + 3 * 3 * 32 * 32))
      << "the next sample draws other numbers";
  const Batch nothing = dataset->load(std::vector<std::int64_t>{2, 2}, kDraw).value();
  expect_well_formed(nothing, dataset->info());
  EXPECT_EQ(nothing.samples, 0);
  EXPECT_EQ(nothing.skipped, 2);
}

TEST_F(ImageFolder, AFileThatIsGoneIsNotSkipped) {
  const auto dataset = open(Split::kTrain, Corrupt::kSkip).value();
  std::filesystem::remove(folder.file("train/dog/x.jpg"));
  expect_input_error(dataset->load(up_to(4), {}), folder.file("train/dog/x.jpg") + ": cannot open the file");
}

TEST_F(ImageFolder, EvaluationTakesValOrTest) {
  expect_input_error(open(Split::kTest), folder.path() + ": found no folder val/ or test/ here");
  for (const char* name : {"ant", "cat", "dog"}) {
    folder.write(std::string("test/") + name + "/1.png", to_png(make_picture(64, 64)));
  }
  EXPECT_EQ(open(Split::kTest).value()->info().size, 3);
  folder.write("val/ant/1.png", to_png(make_picture(64, 64)));
  folder.write("val/dog/1.png", to_png(make_picture(64, 64)));
  expect_input_error(open(Split::kTest), folder.file("val") + ": found 2 class folders, expected the 3 of " +
                                             folder.file("train") + ": the first that is missing is `cat`");
  folder.write("val/bee/1.png", to_png(make_picture(64, 64)));
  expect_input_error(open(Split::kTest), "the first that is too many is `bee`");
}

TEST_F(ImageFolder, WhatIsWrongIsNamed) {
  std::filesystem::create_directories(folder.file("train/eel"));
  expect_input_error(open(), folder.file("train/eel") + ": found no .jpg, .jpeg or .png among 0 files of this class");
  TempFolder flat;
  flat.write("train/1.jpg", "x");
  expect_input_error(
      open_dataset({.name = "imagenet", .path = flat.path()}),
      flat.file("train") + ": found no folders (but 1 images) here, expected a folder of images for each");
  expect_input_error(open_dataset({.name = "imagenet", .path = flat.path(), .split = Split::kTest}),
                     flat.path() + ": found no folder val/ or test/ here, expected val/<class>/");
  expect_input_error(open_dataset({.name = "imagenet"}), "data.path: imagenet comes in no package; give the folder");
  expect_input_error(open_dataset({.name = "imagenet", .path = "/nowhere"}), "/nowhere: found no folder of images");
  expect_input_error(open_dataset({.name = "imagenet", .path = folder.path(), .image = 0}),
                     "data.image: found 0 pixels");
  expect_input_error(open_dataset({.name = "imagenet", .path = folder.path(), .resize = 9000}),
                     "data.resize: found 9000");
  expect_input_error(open_dataset({.name = "imagenet", .path = folder.path(), .image = 224, .resize = 223}),
                     "data.resize: found 223, expected at least 224");
  std::filesystem::remove(folder.file("train/eel"));
  expect_input_error(open_dataset({.name = "imagenet", .path = folder.path(), .classes = 1000}),
                     folder.path() + ": data.classes: imagenet has 3 classes, expected 1000");
}

TEST_F(ImageFolder, LimitTakesTheFirst) {
  const auto dataset =
      open_dataset({.name = "imagenet", .path = folder.path(), .limit = 2, .image = 16, .resize = 16}).value();
  EXPECT_EQ(dataset->info().size, 2);
  EXPECT_EQ(dataset->info().classes, 3);
  EXPECT_THAT(targets(dataset->load(up_to(2), {}).value()), ElementsAre(0, 1));
}

// torchvision rounds to bytes after each direction of resizing, and we do not: at most one level (0.0175 after
// normalisation), a third of one on average. Decoding is the same library on both sides. Large JPEGs are decoded
// reduced here, which costs half as much again.
TEST_F(ImageFolder, EvaluationAsTorchvisionDoesIt) {
  const std::string python = "/usr/bin/python3";
  struct Case {
    const char* name;
    std::string bytes;
    double mean, most;
  };
  const Case cases[] = {{"landscape.png", to_png(make_picture(500, 375)), 0.006, 0.02},
                        {"landscape.jpg", to_jpeg(make_picture(500, 375)), 0.006, 0.02},
                        {"portrait.jpg", to_jpeg(make_picture(333, 501, 3, 2)), 0.006, 0.02},
                        {"small.png", to_png(make_picture(61, 47)), 0.006, 0.02},
                        {"grey.jpg", to_jpeg(make_picture(300, 280, 1)), 0.006, 0.02},
                        {"cmyk.jpg", to_jpeg(make_picture(300, 280, 4)), 0.006, 0.02},
                        {"alpha.png", to_png(make_picture(300, 280, 4)), 0.006, 0.02},
                        {"large.jpg", to_jpeg(make_picture(2400, 1800, 3, 3)), 0.012, 0.1}};
  TempFolder images;
  std::vector<std::string> command{python, std::string(yoke::testing::kSourceDir) + "/tests/data/torchvision_peer.py"};
  for (const Case& one : cases) {
    images.write(std::string("val/only/") + one.name, one.bytes);
    command.push_back(images.file(std::string("val/only/") + one.name));
  }
  testing::Process peer(command);
  ASSERT_TRUE(peer.wait(std::chrono::seconds(120)));
  if (peer.exit_code() == 77 || peer.exit_code() == 127) GTEST_SKIP() << "no torchvision here: " << peer.output();
  ASSERT_EQ(peer.exit_code(), 0) << peer.output();

  const auto dataset = open_dataset({.name = "imagenet", .path = images.path(), .split = Split::kTest}).value();
  const auto names = base::list_folder(images.file("val/only")).value();
  std::int64_t index = 0;
  for (const std::string& name : names) {
    if (name.ends_with(".f32")) continue;
    const Case& one = *std::find_if(std::begin(cases), std::end(cases), [&](const Case& c) { return name == c.name; });
    const std::string bytes = testing::read_text(images.file("val/only/" + name + ".f32"));
    std::vector<float> expected(bytes.size() / sizeof(float));
    std::memcpy(expected.data(), bytes.data(), bytes.size());
    const auto found = values(dataset->load(std::vector<std::int64_t>{index++}, {}).value());
    ASSERT_EQ(found.size(), expected.size());
    double sum = 0, most = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double difference = std::abs(found[i] - expected[i]);
      sum += difference;
      most = std::max(most, difference);
    }
    EXPECT_LT(sum / static_cast<double>(found.size()), one.mean) << name;
    EXPECT_LT(most, one.most) << name;
  }
  EXPECT_EQ(index, static_cast<std::int64_t>(std::size(cases)));
}

}  // namespace
}  // namespace yoke::data
