// `yoke profile` as scripts run it: real processes, so that memory limits and interruptions are real too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/run_yoke.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"
#include "yoke/base/files.h"

namespace yoke::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;
using yoke::testing::Process;
using yoke::testing::TempFolder;

constexpr auto kLong = std::chrono::minutes(2);

struct Ended {
  int code = 0;
  std::string output;
  Json json() const {
    const auto begin = output.find("{\"");
    return begin == std::string::npos ? Json() : Json::parse(output.substr(begin), nullptr, false);
  }
};

Ended run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {yoke::testing::program("yoke"), "--log-level", "error", "profile"});
  Process process(arguments);
  EXPECT_TRUE(process.wait(kLong)) << process.output();
  return {process.exit_code(), process.output()};
}

/// A layer as PipeDream's optimizer reads its graph.txt. Written from the rules of that file and nothing of ours, so
/// that a mistake in our writer is not read back by the same mistake:
///  - the text without blanks around it, one line each; a line that begins with a tab is an edge, any other a node;
///  - a node is `id -- description -- metadata`, and perhaps ` -- stage_id=N`;
///  - the metadata are four items `name=value` with `, ` between, which count by their places: forward and backward
///    milliseconds, bytes put out, bytes of parameters; a value ends at a second `=`;
///  - bytes put out may be a list `[a; b]`, of which the sum counts;
///  - an edge is `from -- to`, of nodes that stand above it.
struct ForeignLayer {
  std::string id, description;
  double numbers[4] = {};
  std::vector<std::string> after;
};

std::vector<std::string> pieces(const std::string& text, const std::string& separator) {
  std::vector<std::string> found;
  std::size_t begin = 0;
  for (std::size_t at = 0; (at = text.find(separator, begin)) != std::string::npos; begin = at + separator.size()) {
    found.push_back(text.substr(begin, at - begin));
  }
  found.push_back(text.substr(begin));
  return found;
}

double foreign_number(const std::string& text) {
  std::size_t read = 0;
  const double value = std::stod(text, &read);
  EXPECT_EQ(read, text.size()) << text;
  return value;
}

std::vector<ForeignLayer> read_as_pipedream(std::string text) {
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  text.erase(0, text.find_first_not_of(" \t\r\n"));
  std::vector<ForeignLayer> layers;
  const auto named = [&](const std::string& id) { return std::ranges::find(layers, id, &ForeignLayer::id); };
  for (const auto& line : pieces(text, "\n")) {
    if (line.starts_with('\t')) {
      const auto ends = pieces(line.substr(1), " -- ");
      EXPECT_EQ(ends.size(), 2U) << line;
      EXPECT_TRUE(named(ends[0]) != layers.end() && named(ends[1]) != layers.end()) << line;
      named(ends[1])->after.push_back(ends[0]);
      continue;
    }
    const auto fields = pieces(line, " -- ");
    EXPECT_TRUE(fields.size() == 3 || fields.size() == 4) << line;
    ForeignLayer layer{.id = fields[0], .description = fields[1], .after = {}};
    const auto items = pieces(fields.at(2), ", ");
    EXPECT_EQ(items.size(), 4U) << line;
    for (std::size_t i = 0; i < 4; ++i) {
      std::string value = pieces(items.at(i), "=").at(1);
      if (value.find('[') == std::string::npos) {
        layer.numbers[i] = foreign_number(value);
        continue;
      }
      value = value.substr(value.find('[') + 1, value.find(']') - value.find('[') - 1);
      for (const auto& part : pieces(value, "; ")) layer.numbers[i] += foreign_number(part);
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

class ProfileCommand : public ::testing::Test {
 protected:
  void SetUp() override {
#if !YOKE_HAS_PROFILER
    GTEST_SKIP() << "this build has no libtorch to measure with";
#endif
  }
  TempFolder folder_;
};

TEST_F(ProfileCommand, MemoryIsTriedInAProcessWithThatLimit) {
  const std::string out = folder_.file("out");
  const Ended ended =
      run({"memory", "--model", "small_cnn", "--lbs", "64", "--memory", "60MB", "--out", out, "--json"});
  ASSERT_EQ(ended.code, 0) << ended.output;
  const Json size = ended.json()["nodes"][0]["profile"]["nodes"][0]["local_batch_sizes"][0];
  const int most = size["max_vsw"];
  EXPECT_GE(most, 1);
  EXPECT_LT(most, 32);
  EXPECT_TRUE(size["memory"]["verified"]);
  EXPECT_FALSE(size["memory"]["capped"]) << "memory binds, not the number of tries";
  const double worker = size["memory"]["worker"];
  const double once = size["memory"]["weights"].get<double>() + size["memory"]["gradients"].get<double>() +
                      size["memory"]["optimizer"].get<double>() + size["memory"]["passes"].get<double>();
  // What was tried counts; the forecast is near it, since the workers' peaks need not coincide.
  EXPECT_LE(once + worker * most, 60e6 * 1.35);
  EXPECT_GT(once + worker * (most + 1), 60e6 * 0.85);
  EXPECT_TRUE(base::exists(out + "/memory_profile_data/64/localhost/max_memory_profile_info.json"));
}

TEST_F(ProfileCommand, ALocalBatchThatFitsNoWorkerIsInfeasible) {
  const Ended ended = run(
      {"memory", "--model", "small_cnn", "--lbs", "512", "--memory", "9MB", "--out", folder_.file("out"), "--json"});
  EXPECT_EQ(ended.code, 3) << ended.output;
  EXPECT_EQ(ended.json()["error"]["kind"], "infeasible");
  EXPECT_THAT(ended.output, HasSubstr("not one worker of 512 samples fits 9.0 MB"));
}

TEST_F(ProfileCommand, AFolderOfAnotherModelIsRefusedByName) {
  const std::string out = folder_.file("out");
  ASSERT_EQ(run({"bucket", "--model", "mlp", "--out", out}).code, 0);
  const Ended ended = run({"bucket", "--model", "small_cnn", "--out", out});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.output, HasSubstr("found a profile of the model `mlp`, expected `small_cnn`"));
}

TEST_F(ProfileCommand, InterruptedItSaysSoAndGoesOn) {
  const std::vector<std::string> command{"compute", "--model",  "mlp", "--lbs", "1,2,4,8",           "--most-vsw",
                                         "2",       "--budget", "10s", "--out", folder_.file("out"), "--json"};
  std::vector<std::string> argv{yoke::testing::program("yoke"), "--log-level", "error", "profile"};
  argv.insert(argv.end(), command.begin(), command.end());
  Process process(argv);
  const std::string file = folder_.file("out/comp_profile_data/1/localhost");
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (!base::exists(file) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ::kill(process.pid(), SIGINT);
  ASSERT_TRUE(process.wait(kLong));
  const Ended first{process.exit_code(), process.output()};
  EXPECT_EQ(first.code, 130) << first.output;
  EXPECT_TRUE(first.json()["interrupted"]);
  const int measured = first.json()["nodes"][0]["measured"];
  EXPECT_LT(measured, 8);
  const Ended second = run(command);
  ASSERT_EQ(second.code, 0) << second.output;
  EXPECT_EQ(second.json()["nodes"][0]["kept"], measured);
  EXPECT_EQ(second.json()["nodes"][0]["measured"], 8 - measured);
}

TEST_F(ProfileCommand, EveryNodeOfThisMachineIsMeasured) {
  const std::string cluster = folder_.write("cluster.yaml", "nodes:\n  - {name: fast}\n  - {name: slow, speed: 0.5}\n");
  const Ended ended = run({"compute", "--model", "mlp", "--lbs", "64", "--most-vsw", "1", "--budget", "2s", "--cluster",
                           cluster, "--out", folder_.file("out"), "--json"});
  ASSERT_EQ(ended.code, 0) << ended.output;
  const Json nodes = ended.json()["nodes"];
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[1]["node"], "slow");
  EXPECT_TRUE(base::exists(folder_.file("out/nodes/fast.json")));
  EXPECT_TRUE(base::exists(folder_.file("out/nodes/slow.json")));
}

TEST_F(ProfileCommand, AllMeasuresEveryPartAndTheLinks) {
  // Documentation addresses are nobody's, so this one is another machine's.
  const std::string cluster = folder_.write(
      "cluster.yaml", "nodes:\n  - {name: left}\n  - {name: right}\n  - {name: far, address: 192.0.2.1}\n");
  const std::string out = folder_.file("out");
  const std::vector<std::string> command{"all",   "--model", "mlp",        "--lbs", "2",        "--cluster", cluster,
                                         "--out", out,       "--most-vsw", "1",     "--budget", "10s"};
  std::vector<std::string> argv{yoke::testing::program("yoke"), "profile"};
  argv.insert(argv.end(), command.begin(), command.end());
  Process process(argv);
  ASSERT_TRUE(process.wait(kLong)) << process.output();
  ASSERT_EQ(process.exit_code(), 0) << process.output();
  const std::string& said = process.output();
  for (const char* part : {"max vsw", "samples/s", "recommended sync", "layers with 2 samples", "all-reduce",
                           "left: 4 measured, 0 kept", "right: 4 measured, 0 kept", "profiles in"}) {
    EXPECT_THAT(said, HasSubstr(part));
  }
  std::size_t ends = 0;
  for (std::size_t at = 0; (at = said.find(", took ", at)) != std::string::npos; ++at) ++ends;
  EXPECT_EQ(ends, 1U) << "one display for all of it\n" << said;
  for (const std::string name :
       {"nodes/left.json", "nodes/right.json", "buckets.json", "buckets.svg", "layers.json", "comm.json",
        "layers/left/2/graph.txt", "layers/right/2/times.svg", "comm_profile_data/inter_comm_profile_data.txt",
        "memory_profile_data/2/left/max_memory_profile_info.json", "comp_profile_data/2/right"}) {
    EXPECT_TRUE(base::exists(out + "/" + name)) << name;
  }
  EXPECT_FALSE(base::exists(out + "/nodes/far.json"));
  auto again = command;
  again.emplace_back("--json");
  const Ended ended = run(again);
  ASSERT_EQ(ended.code, 0) << ended.output;
  const Json json = ended.json();
  ASSERT_EQ(json["nodes"].size(), 2U);
  for (const auto& node : json["nodes"]) {
    // Buckets cost nothing; times that a busy machine left with fewer than three visits are measured again.
    EXPECT_GE(node["kept"].get<int>(), 1) << "memory";
    EXPECT_EQ(node["kept"].get<int>() + node["measured"].get<int>(), 4);
  }
  EXPECT_FALSE(json["interrupted"]);
  const Outcome planned =
      yoke({"plan", "auto", "--cluster", folder_.write("here.yaml", "nodes:\n  - {name: left}\n  - {name: right}\n"),
            "--profiles", out, "--gbs", "8"});
  EXPECT_EQ(planned.code, 0) << planned.err << "what was measured is enough to plan by";
}

TEST_F(ProfileCommand, LayersAreAGraphThatPipedreamReads) {
  const std::string out = folder_.file("out");
  const Ended ended =
      run({"layers", "--model", "small_cnn", "--lbs", "4", "--budget", "200ms", "--out", out, "--json"});
  ASSERT_EQ(ended.code, 0) << ended.output;
  const Json ours = ended.json()["nodes"][0]["layers"][0]["layers"];
  const std::string file = out + "/layers/localhost/4/graph.txt";
  const auto theirs = read_as_pipedream(*base::read_file(file));
  ASSERT_EQ(theirs.size(), ours.size());
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    EXPECT_EQ(theirs[i].id, ours[i]["id"].get<std::string>());
    const char* keys[] = {"forward_ms", "backward_ms", "activation_bytes", "parameter_bytes"};
    for (std::size_t k = 0; k < 4; ++k)
      EXPECT_EQ(theirs[i].numbers[k], ours[i][keys[k]].get<double>()) << theirs[i].id << keys[k];
    // A chain; its optimizer leaves out inputs, and what begins like Python's indexing.
    EXPECT_EQ(theirs[i].after, i == 0 ? std::vector<std::string>() : std::vector{theirs[i - 1].id});
    EXPECT_FALSE(theirs[i].description.starts_with("Input") || theirs[i].description.starts_with("__getitem__"));
  }
  const base::Document planned = yoke_json(
      {"plan", "pipeline", "--profile", file, "--devices", "2,2", "--bandwidth", "15e9,1.25e9", "--cost", "pipedream"});
  base::Reader reader(planned);
  double alone = 0;
  for (const auto& layer : theirs) alone += (layer.numbers[0] + layer.numbers[1]) / 1000;
  EXPECT_NEAR(reader.root().field("single_seconds").number(), alone, 1e-12);
  EXPECT_LE(reader.root().field("seconds_per_minibatch").number(), alone);
  std::size_t placed = 0;
  for (auto& stage : reader.root().field("stages").items()) placed += stage.field("layers").items().size();
  EXPECT_EQ(placed, theirs.size());
}

TEST_F(ProfileCommand, AFolderThatCannotBeWrittenIsFoundFirst) {
  for (const std::string part : {"memory", "compute", "layers"}) {
    // Nobody, root included, makes files in there.
    const Ended ended = run({part, "--model", "mlp", "--lbs", "2", "--out", "/proc/self", "--json"});
    EXPECT_EQ(ended.code, 2) << part << ended.output;
    EXPECT_EQ(ended.json()["error"]["kind"], "input");
    EXPECT_THAT(ended.output, HasSubstr("/proc/self/nodes"));
    EXPECT_THAT(ended.output, Not(HasSubstr("seconds"))) << "nothing was measured";
  }
}

TEST_F(ProfileCommand, PausesBeforeADevice) {
  const Ended ended = run({"layers", "--model", "mlp", "--lbs", "1", "--budget", "100ms", "--pause", "1500ms", "--out",
                           folder_.file("out"), "--json"});
  ASSERT_EQ(ended.code, 0) << ended.output;
  const Json node = ended.json()["nodes"][0];
  EXPECT_GE(node["seconds"].get<double>(), 1.5);
}

TEST(ProfileOptions, AreCheckedBeforeAnythingIsMeasured) {
  const auto expect = [](const std::vector<std::string>& arguments, const std::string& part) {
    const Outcome outcome = yoke(arguments);
    EXPECT_EQ(outcome.code, 2) << part;
    EXPECT_THAT(outcome.err, HasSubstr(part));
  };
  expect({"profile", "memory", "--lbs", "4"}, "--model: expected either --model NAME or --job FILE");
  expect({"profile", "memory", "--model", "mlp"}, "--lbs: found none");
  for (const std::string lbs : {"8..4", "0", "x", "4,", "4..", "1e9"}) {
    expect({"profile", "memory", "--model", "mlp", "--lbs", lbs}, "--lbs: found `" + lbs + "`");
  }
  expect({"profile", "memory", "--model", "mlp", "--lbs", "4", "--mode", "dinamic"}, "did you mean `dynamic`?");
  expect({"profile", "memory", "--model", "mlp", "--lbs", "4", "--memory", "much"}, "--memory: found `much`");
  expect({"profile", "compute", "--model", "mlp", "--lbs", "4", "--budget", "x"}, "--budget");
  expect({"profile", "memory", "--model", "mlp", "--lbs", "4", "--budget", "0"}, "--budget: found 0");
  expect({"profile", "compute", "--model", "mlp", "--lbs", "4", "--pause", "-1s"}, "--pause");
  expect({"profile", "layers", "--model", "mlp", "--lbs", "4", "--most-vsw", "0"}, "--most-vsw: found 0");
  expect({"profile", "bucket", "--model", "mlp", "--set", "optimiser.lr=1"}, "did you mean `optimizer`?");
  expect({"profile", "bucket", "--model", "mlp", "--node", "a b"}, "--node");
}

}  // namespace
}  // namespace yoke::cli
