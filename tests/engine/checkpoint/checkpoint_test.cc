#include "yoke/engine/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <random>

#include "tests/engine/checkpoint/samples.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "yoke/base/document.h"

namespace yoke::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::counted;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::same;
using testing::sample;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using yoke::testing::expect_input_error;
using yoke::testing::fork_child;
using yoke::testing::TempFolder;

std::string save(const std::string& folder, const Checkpoint& checkpoint, std::int64_t keep = 100) {
  const auto saved = save_checkpoint(folder, checkpoint, keep);
  EXPECT_TRUE(saved.ok()) << saved.error().to_string();
  return saved.ok() ? *saved : "";
}

/// The step that load_newest() finds; -1 if there is none. Checks the content against the step.
std::int64_t newest(const std::string& folder, std::vector<std::string>& warnings) {
  const auto loaded = load_newest(folder, warnings);
  EXPECT_TRUE(loaded.ok()) << loaded.error().to_string();
  if (!loaded.ok() || !*loaded) return -1;
  const std::int64_t step = (*loaded)->meta.cursor.step;
  EXPECT_TRUE(same(**loaded, sample(step))) << "step " << step << " is not what was saved";
  return step;
}

void flip(const std::string& path, std::int64_t byte, int bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(byte);
  const char old = static_cast<char>(file.get());
  file.seekp(byte);
  file.put(static_cast<char>(old ^ 1 << bit));
}

/// Runs the function in a child process, so that limits and mounts end with it, and returns what it says.
std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = fork_child([&] {
    const std::string said = body();
    (void)!::write(ends[1], said.data(), said.size());
  });
  ::close(ends[1]);
  std::string said;
  char chunk[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], chunk, sizeof(chunk))) > 0;)
    said.append(chunk, static_cast<std::size_t>(got));
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return said;
}

TEST(Checkpoint, RoundTripOfEveryType) {
  const TempFolder folder;
  Checkpoint checkpoint = sample(5);
  checkpoint.weights.clear();
  const torch::ScalarType types[] = {torch::kFloat32, torch::kFloat64, torch::kFloat16, torch::kBFloat16,
                                     torch::kInt64,   torch::kInt32,   torch::kUInt8,   torch::kBool};
  // Small elements first and odd sizes, so that the order in the file is another.
  for (int i = 7; i >= 0; --i) {
    checkpoint.weights.emplace_back(fmt::format("matrix{}", i), counted({3, i + 1, 5}, types[i], i));
    checkpoint.weights.emplace_back(fmt::format("scalar{}", i), counted({}, types[i], i));
    checkpoint.weights.emplace_back(fmt::format("empty{}", i), counted({2, 0, 3}, types[i], i));
  }
  const std::string path = save(folder.file("a/b"), checkpoint);
  EXPECT_EQ(path, folder.file("a/b/step-000000005"));
  const auto loaded = load_checkpoint(path);
  ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
  EXPECT_TRUE(same(*loaded, checkpoint));
  EXPECT_THAT(*base::list_folder(path), ElementsAre("manifest.json", "optimizer.safetensors", "weights.safetensors"));
  EXPECT_THAT(*base::list_folder(folder.file("a/b")), ElementsAre("step-000000005"));
}

TEST(Checkpoint, WithoutOptimizerState) {
  const TempFolder folder;
  Checkpoint checkpoint = sample(1);
  checkpoint.optimizer.clear();
  checkpoint.meta.batches.clear();
  EXPECT_TRUE(same(*load_checkpoint(save(folder.path(), checkpoint)), checkpoint));
}

TEST(Checkpoint, LargeOnesAreCutIntoSeveralFiles) {
  const TempFolder folder;
  const auto path = save_checkpoint(folder.path(), sample(3), 1, 12'050);
  ASSERT_TRUE(path.ok());
  EXPECT_THAT(
      *base::list_folder(*path),
      ElementsAre("manifest.json", "optimizer-00001-of-00002.safetensors", "optimizer-00002-of-00002.safetensors",
                  "weights-00001-of-00002.safetensors", "weights-00002-of-00002.safetensors"));
  EXPECT_TRUE(same(*load_checkpoint(*path), sample(3)));
}

TEST(Checkpoint, KeepsTheNewestAndReplacesTheSameStep) {
  const TempFolder folder;
  for (const std::int64_t step : {1, 2, 3, 1'000'000'000}) save(folder.path(), sample(step), 3);
  EXPECT_THAT(*base::list_folder(folder.path()), ElementsAre("step-000000002", "step-000000003", "step-1000000000"));
  std::vector<std::string> warnings;
  EXPECT_EQ(newest(folder.path(), warnings), 1'000'000'000);
  Checkpoint other = sample(3);
  other.meta.updates = 77;
  save(folder.path(), other, 1);
  EXPECT_THAT(*base::list_folder(folder.path()), ElementsAre("step-000000003", "step-1000000000"))
      << "of later steps nothing is removed";
  EXPECT_EQ(load_checkpoint(folder.file("step-000000003"))->meta.updates, 77);
  EXPECT_THAT(warnings, IsEmpty());
}

TEST(Checkpoint, NoneIsNoError) {
  const TempFolder folder;
  std::vector<std::string> warnings;
  EXPECT_EQ(newest(folder.file("absent"), warnings), -1);
  EXPECT_EQ(newest(folder.path(), warnings), -1);
  folder.write("step-x/file", "");
  folder.write("step-000000001", "a file of that name");
  folder.write(".tmp-host-1-1-0/manifest.json", "{}");
  EXPECT_EQ(newest(folder.path(), warnings), -1);
  EXPECT_THAT(warnings, IsEmpty());
  expect_input_error(load_newest(folder.file("step-000000001"), warnings), "expected a folder");
  expect_input_error(load_checkpoint(folder.file("absent")), "found no folder");
}

TEST(Checkpoint, OfAnotherModelIsRefused) {
  EXPECT_TRUE(check_model(sample(1).meta, "lenet", "run/checkpoints").ok());
  expect_input_error(check_model(sample(1).meta, "resnet18", "run/checkpoints"), "of the model `lenet`, expected");
}

// Every byte of every file is under a checksum, and the message names the file and what of it is damaged.
TEST(Checkpoint, FlippedBitsAreFoundAndNamed) {
  const TempFolder folder;
  save(folder.path(), sample(1));
  const std::string path = save(folder.path(), sample(2, 400));
  std::mt19937 random(7);
  int of_tensors = 0;
  int of_headers = 0;
  const std::vector<std::string> names = *base::list_folder(path);
  for (const auto& name : names) {
    const std::string file = path + "/" + name;
    const auto size = static_cast<std::int64_t>(fs::file_size(file));
    for (int round = 0; round < 120; ++round) {
      const auto byte = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(size));
      const int bit = static_cast<int>(random() % 8);
      SCOPED_TRACE(fmt::format("{}: byte {} of {}, bit {}", name, byte, size, bit));
      flip(file, byte, bit);
      const auto loaded = load_checkpoint(path);
      expect_input_error(loaded, name);
      const std::string field = loaded.error().where.field;
      if (name != "manifest.json" && field == "header") ++of_headers;
      if (field.ends_with("stem.weight") || field.ends_with("stem.bias") || field == "norm.batches") ++of_tensors;
      flip(file, byte, bit);
    }
  }
  EXPECT_GT(of_tensors, 100);
  EXPECT_GT(of_headers, 20);
  EXPECT_TRUE(same(*load_checkpoint(path), sample(2, 400))) << "all was put right again";
}

TEST(Checkpoint, TheDamagedTensorIsNamedAndTheOneBeforeIsTaken) {
  const TempFolder folder;
  save(folder.path(), sample(1));
  const std::string path = save(folder.path(), sample(2));
  // The last tensor in the file: the smaller ones of the same type come behind in their order.
  const auto size = static_cast<std::int64_t>(fs::file_size(path + "/optimizer.safetensors"));
  flip(path + "/optimizer.safetensors", size - 1, 3);
  std::vector<std::string> warnings;
  EXPECT_EQ(newest(folder.path(), warnings), 1);
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("step-000000002/optimizer.safetensors"),
                                          HasSubstr("momentum.stem.bias"), HasSubstr("damaged"))));
}

TEST(Checkpoint, CutAndMissingFilesAreNamed) {
  const TempFolder folder;
  save(folder.path(), sample(1));
  for (const std::string name : {"manifest.json", "optimizer.safetensors", "weights.safetensors"}) {
    for (const double part : {0.0, 0.001, 0.5, 0.999, -1.0, 1.1}) {
      SCOPED_TRACE(fmt::format("{} cut to {}", name, part));
      const std::string path = save(folder.path(), sample(2));
      const std::string file = path + "/" + name;
      if (part < 0) {
        fs::remove(file);
      } else {
        fs::resize_file(file, static_cast<std::uintmax_t>(static_cast<double>(fs::file_size(file)) * part));
      }
      expect_input_error(load_checkpoint(path), name);
      std::vector<std::string> warnings;
      EXPECT_EQ(newest(folder.path(), warnings), 1);
      EXPECT_THAT(warnings, ElementsAre(HasSubstr(name)));
    }
  }
}

TEST(Checkpoint, IfAllAreDamagedTheErrorNamesThem) {
  const TempFolder folder;
  for (const std::int64_t step : {1, 2, 3, 4, 5, 6})
    fs::resize_file(save(folder.path(), sample(step)) + "/weights.safetensors", 9);
  std::vector<std::string> warnings;
  const auto loaded = load_newest(folder.path(), warnings);
  expect_input_error(loaded, "no checkpoint is whole");
  EXPECT_THAT(loaded.error().message, AllOf(HasSubstr("step-000000006/weights.safetensors"), HasSubstr("and 2 more")));
  EXPECT_EQ(warnings.size(), 6U);
}

TEST(Checkpoint, TensorsThatTheFormatCannotHoldAreInputErrors) {
  const TempFolder folder;
  Checkpoint checkpoint = sample(1);
  checkpoint.weights.emplace_back("odd", torch::empty({2}, torch::kInt16));
  expect_input_error(save_checkpoint(folder.path(), checkpoint, 1), "its type is Short");
  checkpoint.weights.back() = {"stem.bias", torch::empty({2})};
  expect_input_error(save_checkpoint(folder.path(), checkpoint, 1), "step-000000001/weights.safetensors");
  EXPECT_THAT(*base::list_folder(folder.path()), IsEmpty());
  checkpoint.weights.back() = {"view", torch::empty({2, 3}).t()};
  EXPECT_THROW((void)save_checkpoint(folder.path(), checkpoint, 1), base::Failure);
}

TEST(Checkpoint, WhereNothingCanBeWrittenIsAnInputError) {
  const TempFolder folder;
  expect_input_error(save_checkpoint("/proc/yoke/checkpoints", sample(1), 1), "cannot make the folder");
  expect_input_error(save_checkpoint(folder.write("file", ""), sample(1), 1), "Not a directory");
  expect_input_error(save_checkpoint("/proc", sample(1), 1), "choose another folder");
}

/// Mounts a small disk for this process alone; false where that is not allowed.
bool mount_small_disk(const std::string& folder, const char* options, unsigned long flags = 0) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("none", folder.c_str(), "tmpfs", flags, options) == 0;
}

/// Saves two, of which the second is too large; tells what is wrong, or the error's text.
std::string save_too_much(const std::string& folder) {
  if (const auto saved = save_checkpoint(folder, sample(1), 3); !saved.ok()) return saved.error().to_string();
  const auto large = save_checkpoint(folder, sample(2, 1'000'000), 1);
  if (large.ok()) return "it was saved";
  if (large.error().kind != base::ErrorKind::kPeer) return "not a peer error: " + large.error().to_string();
  if (*base::list_folder(folder) != std::vector<std::string>{"step-000000001"}) return "something was left";
  if (!same(*load_checkpoint(folder + "/step-000000001"), sample(1))) return "the old one is gone";
  if (!save_checkpoint(folder, sample(3), 3).ok()) return "cannot save a small one afterwards";
  return large.error().to_string();
}

TEST(Checkpoint, AFullDiskLeavesTheOldOnesAndNothingElse) {
  const TempFolder folder;
  const std::string said = in_child([&]() -> std::string {
    if (!mount_small_disk(folder.path(), "size=1m")) return "not allowed";
    return save_too_much(folder.path());
  });
  if (said == "not allowed") GTEST_SKIP() << "may not mount a small disk";
  EXPECT_THAT(said, AllOf(StartsWith(folder.file("step-000000002/weights.safetensors")), HasSubstr("No space left"),
                          HasSubstr("a checkpoint needs 8.0 MB"), HasSubstr("are free")));
}

TEST(Checkpoint, ALimitOnFilesIsToldLikeAFullDisk) {
  const TempFolder folder;
  const std::string said = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return save_too_much(folder.path());
  });
  EXPECT_THAT(said, AllOf(StartsWith(folder.file("step-000000002/weights.safetensors")), HasSubstr("File too large"),
                          HasSubstr("a checkpoint needs 8.0 MB")));
}

TEST(Checkpoint, AReadOnlyDiskIsAnInputError) {
  const TempFolder folder;
  const std::string said = in_child([&]() -> std::string {
    if (!mount_small_disk(folder.path(), "size=1m", MS_RDONLY)) return "not allowed";
    const auto saved = save_checkpoint(folder.path(), sample(1), 1);
    return saved.ok() ? "saved" : fmt::format("{}: {}", base::to_string(saved.error().kind), saved.error().to_string());
  });
  if (said == "not allowed") GTEST_SKIP() << "may not mount a disk";
  EXPECT_THAT(said, AllOf(StartsWith("input: " + folder.path()), HasSubstr("Read-only file system")));
}

TEST(Checkpoint, WhatTheDeadLeftIsRemovedAndWhatTheLivingWriteIsNot) {
  const TempFolder folder;
  char host[256] = {};
  ::gethostname(host, sizeof(host) - 1);
  const auto left = [&](const std::string& whose) {
    folder.write(fmt::format(".tmp-{}/weights.safetensors", whose), "half");
    return ".tmp-" + whose;
  };
  // A process that is dead, one whose id now is that of another (our parent), one of another host, and one that lives.
  const pid_t dead = fork_child([] {});
  ::waitpid(dead, nullptr, 0);
  left(fmt::format("{}-{}-0-0", host, dead));
  left(fmt::format("{}-{}-12345-7", host, dead));
  left(fmt::format("{}-{}-1-0", host, ::getppid()));
  const std::string elsewhere = left(fmt::format("not-{}-{}-5-0", host, dead));
  const std::string strange = left("something");
  const std::string living = left(fmt::format("{}-{}-0-0", host, ::getppid()));
  save(folder.path(), sample(1));
  EXPECT_THAT(*base::list_folder(folder.path()), UnorderedElementsAre(elsewhere, strange, living, "step-000000001"));
}

TEST(Safetensors, FilesAloneRoundTrip) {
  const TempFolder folder;
  const NamedTensors tensors = sample(4).weights;
  ASSERT_TRUE(write_safetensors(folder.file("x.safetensors"), tensors, {{"made", "by a test"}}).ok());
  EXPECT_TRUE(same(*read_safetensors(folder.file("x.safetensors")), tensors));
  EXPECT_THAT(*base::list_folder(folder.path()), ElementsAre("x.safetensors"));
  expect_input_error(read_safetensors(folder.path()), "expected a file");
  expect_input_error(read_safetensors(folder.file("absent")), "cannot open");
  expect_input_error(read_safetensors(folder.write("short", "1234")), "found 4 bytes");
  expect_input_error(write_safetensors(folder.file("no/x"), tensors), "found no folder");
}

TEST(WeightsSha256, FollowsFromNamesAndContentAlone) {
  NamedTensors weights = sample(1).weights;
  const std::string sum = weights_sha256(weights);
  EXPECT_EQ(sum.size(), 64U);
  std::swap(weights[0], weights[2]);
  EXPECT_EQ(weights_sha256(weights), sum) << "the order does not matter";
  EXPECT_EQ(weights_sha256(sample(1).weights), sum) << "other memory, the same content";
  EXPECT_NE(weights_sha256(sample(2).weights), sum);
  weights[0].first += "x";
  EXPECT_NE(weights_sha256(weights), sum);
  const torch::Tensor zeros = counted({4}, torch::kFloat32, 0);
  EXPECT_NE(weights_sha256({{"a", zeros}}), weights_sha256({{"a", zeros.view({2, 2})}}));
  EXPECT_EQ(weights_sha256({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

// Reads and checks a checkpoint with nothing but Python and numpy, and writes a file for us.
constexpr const char* kPython = R"(
import hashlib, json, struct, sys
import numpy

folder, foreign = sys.argv[1:]
kinds = {'F32': '<f4', 'F64': '<f8', 'F16': '<f2', 'BF16': '<u2', 'I64': '<i8', 'I32': '<i4', 'U8': 'u1', 'BOOL': '?'}

def read(path):
    raw = open(path, 'rb').read()
    length, = struct.unpack('<Q', raw[:8])
    head = json.loads(raw[8:8 + length])
    assert head.pop('__metadata__') == {'format': 'pt'}
    data, tensors = raw[8 + length:], {}
    for name, entry in head.items():
        begin, end = entry['data_offsets']
        tensors[name] = (entry['dtype'], entry['shape'], data[begin:end])
    return raw[:8 + length], tensors

def values(tensor):
    kind, shape, data = tensor
    array = numpy.frombuffer(data, kinds[kind]).reshape(shape)
    return (array.astype('<u4') << 16).view('<f4') if kind == 'BF16' else array

text = open(folder + '/manifest.json').read()
manifest = json.loads(text)
assert hashlib.sha256(text[:text.rindex(',\n  "sha256"')].encode()).hexdigest() == manifest['sha256']
assert manifest['format'] == 'yoke-checkpoint' and manifest['cursor']['step'] == 9
for file in manifest['files']:
    head, tensors = read(folder + '/' + file['name'])
    assert hashlib.sha256(head).hexdigest() == file['header_sha256']
    assert {name: hashlib.sha256(data).hexdigest() for name, (_, _, data) in tensors.items()} == file['tensors_sha256']

_, tensors = read(folder + '/weights.safetensors')
assert values(tensors['f32']).tolist() == [[0.5, 1.5, 2.5], [3.5, 4.5, 5.5]]
assert values(tensors['f64']).tolist() == [1e300]
assert values(tensors['f16']).tolist() == [0.25, -2.0]
assert values(tensors['bf16']).tolist() == [3.0, -0.5]
assert values(tensors['i64']).tolist() == -(1 << 60)
assert values(tensors['i32']).tolist() == [7, -7]
assert values(tensors['u8']).tolist() == [0, 255]
assert values(tensors['bool']).tolist() == [True, False, True]
assert values(tensors['none']).shape == (0, 3)

total = hashlib.sha256()
for name in sorted(tensors):
    kind, shape, data = tensors[name]
    total.update(f"{name}\n{kind} {','.join(map(str, shape))}\n".encode())
    total.update(data)
print(total.hexdigest())

head = json.dumps({'b': {'dtype': 'F64', 'shape': [1], 'data_offsets': [3, 11]},
                   'a': {'dtype': 'U8', 'shape': [3], 'data_offsets': [0, 3]}}).encode()
open(foreign, 'wb').write(struct.pack('<Q', len(head)) + head + bytes([1, 2, 3]) + struct.pack('<d', 2.5))
)";

TEST(Checkpoint, PythonReadsItWithoutOurCodeAndWeReadPythons) {
  const TempFolder folder;
  const std::string python = "/usr/bin/python3";
  yoke::testing::Process has_numpy({python, "-c", "import numpy"});
  if (!has_numpy.wait(std::chrono::seconds(60)) || has_numpy.exit_code() != 0) GTEST_SKIP() << "no python3 with numpy";
  Checkpoint checkpoint = sample(9);
  checkpoint.weights = {
      {"u8", torch::tensor({0, 255}, torch::kUInt8)},
      {"f32", torch::tensor({{0.5F, 1.5F, 2.5F}, {3.5F, 4.5F, 5.5F}})},
      {"bool", torch::tensor({true, false, true})},
      {"f64", torch::tensor({1e300}, torch::kFloat64)},
      {"f16", torch::tensor({0.25, -2.0}, torch::kFloat32).to(torch::kFloat16)},
      {"none", torch::empty({0, 3})},
      {"bf16", torch::tensor({3.0, -0.5}, torch::kFloat32).to(torch::kBFloat16)},
      {"i32", torch::tensor({7, -7}, torch::kInt32)},
      {"i64", torch::tensor(-(std::int64_t{1} << 60), torch::kInt64)},
  };
  const std::string path = save(folder.path(), checkpoint);
  const std::string foreign = folder.file("foreign.safetensors");
  yoke::testing::Process script({python, folder.write("read.py", kPython), path, foreign});
  ASSERT_TRUE(script.wait(std::chrono::seconds(60)));
  ASSERT_EQ(script.exit_code(), 0) << script.output();
  EXPECT_EQ(script.output(), weights_sha256(checkpoint.weights) + "\n");

  const auto read = read_safetensors(foreign);
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ(read->at(0).first, "b");
  EXPECT_EQ(read->at(0).second.item<double>(), 2.5);
  EXPECT_TRUE(read->at(1).second.equal(torch::tensor({1, 2, 3}, torch::kUInt8)));
}

}  // namespace
}  // namespace yoke::engine
