// The run folder's rules, the job as it is taken, and the small pieces that fill the folder.
#include "yoke/cli/run/run_folder.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "tests/support/files.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tensorboard_reader.h"
#include "yoke/cli/run/devices.h"
#include "yoke/cli/run/job_input.h"
#include "yoke/cli/run/recorder.h"
#include "yoke/cli/run/rendezvous.h"
#include "yoke/cli/run/run_result.h"
#include "yoke/cluster/cluster_file.h"

namespace yoke::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using yoke::testing::expect_input_error;
using yoke::testing::read_text;
using yoke::testing::TempFolder;

constexpr const char* kJob =
    "model: {name: lenet}\ndata: {name: synthetic, path: data}\nbatch: {global: 32, local: [8, 16]}\n"
    "optimizer: {lr: 0.1}\nprofiles: \n";

RunFolderOptions at(const std::string& path, bool resume = false) {
  return {.path = path, .job_name = "lenet", .date = "2024-05-31", .resume = resume};
}

plan::Job example_job() {
  return *plan::parse_job(kJob, "job.yaml");
}

TEST(RunFolder, IsMadeLockedAndKnown) {
  const TempFolder temp;
  const std::string path = temp.file("a/b");
  {
    auto folder = RunFolder::open(at(path));
    ASSERT_TRUE(folder.ok()) << folder.error().to_string();
    EXPECT_EQ(folder->path(), path);
    EXPECT_FALSE(folder->resumes());
    EXPECT_TRUE(base::is_folder(folder->file("logs")));
    const auto second = RunFolder::open(at(path));
    expect_input_error(second, "another run at work");
    EXPECT_THAT(second.error().message, HasSubstr("pid " + std::to_string(::getpid())));
    expect_input_error(RunFolder::open(at(path, true)), "another run at work");
  }
  EXPECT_TRUE(RunFolder::open(at(path)).ok()) << "nothing was trained there: it may be begun anew";
}

TEST(RunFolder, IsShownAsItWouldBeTyped) {
  const auto here = std::filesystem::current_path();
  EXPECT_EQ(as_typed((here / "runs/job-1").string()), "runs/job-1");
  EXPECT_EQ(as_typed(here.string()), here.string());
  EXPECT_EQ(as_typed((here.parent_path() / "elsewhere").string()), (here.parent_path() / "elsewhere").string());
}

TEST(RunFolder, OtherPeoplesFoldersAreNotTouched) {
  const TempFolder temp;
  temp.write("mine/job.yaml", kJob);
  expect_input_error(RunFolder::open(at(temp.file("mine"))), "other things in it");
  expect_input_error(RunFolder::open(at(temp.file("mine"), true)), "other things in it");
  EXPECT_THAT(*base::list_folder(temp.file("mine")), ElementsAre("job.yaml"));
  temp.write("file", "x");
  expect_input_error(RunFolder::open(at(temp.file("file"))), "file");
  expect_input_error(RunFolder::open(at(temp.file("file/below"))), "file");
}

/// Root may read everything: for a while, somebody else.
class AsNobody {
 public:
  AsNobody() {
    if (root_) became_ = ::seteuid(65534) == 0;
  }
  ~AsNobody() { EXPECT_TRUE(!root_ || ::seteuid(0) == 0); }
  bool works() const { return !root_ || became_; }

 private:
  const bool root_ = ::geteuid() == 0;
  bool became_ = false;
};

TEST(RunFolder, AFolderThatCannotBeReadOrWrittenIsRefused) {
  namespace fs = std::filesystem;
  const TempFolder temp;
  const std::string path = temp.file("closed");
  fs::create_directory(path);
  constexpr auto kReadable = fs::perms{0555};
  fs::permissions(temp.path(), fs::perms{0755});
  fs::permissions(path, fs::perms::none);
  {
    const AsNobody nobody;
    ASSERT_TRUE(nobody.works());
    expect_input_error(RunFolder::open(at(path)), "cannot read the folder");
  }
  fs::permissions(path, kReadable);
  {
    const AsNobody nobody;
    expect_input_error(RunFolder::open(at(path)), "cannot write to the run folder");
  }
  fs::permissions(path, fs::perms::owner_all);
}

TEST(RunFolder, ARunIsResumedOnlyOnRequest) {
  const TempFolder temp;
  const std::string path = temp.file("run");
  expect_input_error(RunFolder::open(at(path, true)), "no run to go on with");
  EXPECT_FALSE(base::exists(path)) << "a refusal leaves nothing";
  {
    auto folder = RunFolder::open(at(path));
    ASSERT_TRUE(folder.ok());
    ASSERT_TRUE(folder->put_job(example_job()).ok());
  }
  temp.write("run/metrics.jsonl", "{\"step\":1}\n");
  expect_input_error(RunFolder::open(at(path)), "has begun; --resume goes on");
  {
    const auto folder = RunFolder::open(at(path, true));
    ASSERT_TRUE(folder.ok()) << folder.error().to_string();
    EXPECT_TRUE(folder->resumes());
  }
  temp.write("run/result.json", "{}");
  expect_input_error(RunFolder::open(at(path)), "is finished; --resume goes on");
  EXPECT_EQ(read_text(temp.file("run/metrics.jsonl")), "{\"step\":1}\n") << "nothing is lost";
}

TEST(RunFolder, AJobThatWouldNotGoOnAtTheExactSampleIsRefusedByKey) {
  const TempFolder temp;
  ASSERT_TRUE(RunFolder::open(at(temp.file("run")))->put_job(example_job()).ok());
  temp.write("run/metrics.jsonl", "{\"step\":1}\n");
  auto folder = RunFolder::open(at(temp.file("run"), true));
  ASSERT_TRUE(folder.ok());
  plan::Job other = example_job();
  other.model.name = "resnet18";
  auto refused = folder->put_job(other);
  expect_input_error(refused, "begun with `lenet`");
  EXPECT_EQ(refused.error().where.field, "model.name");
  other = example_job();
  other.seed = 2;
  EXPECT_EQ(folder->put_job(other).error().where.field, "seed");
  other = example_job();
  other.data.limit = 10;
  EXPECT_EQ(folder->put_job(other).error().where.field, "data.limit");
  EXPECT_EQ(*plan::load_job(temp.file("run/job.yaml")), example_job()) << "the refused ones have changed nothing";

  other = example_job();
  other.optimizer.lr = 0.05;
  other.epochs = 7;
  const auto changes = folder->put_job(other);
  ASSERT_TRUE(changes.ok()) << changes.error().to_string();
  ASSERT_EQ(changes->size(), 2U);
  EXPECT_EQ((*changes)[0].key, "optimizer.lr");
  EXPECT_EQ((*changes)[0].before, "0.1");
  EXPECT_EQ((*changes)[0].after, "0.05");
  EXPECT_EQ((*changes)[1].key, "epochs");
  EXPECT_EQ(plan::load_job(temp.file("run/job.yaml"))->epochs, 7);
}

TEST(RunFolder, NamesCountUpAndTheNewestIsResumed) {
  const TempFolder temp;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(temp.path());
  expect_input_error(RunFolder::open(at("", true)), "no run of `lenet`");
  std::string last;
  for (int i = 1; i <= 11; ++i) last = RunFolder::open(at(""))->path();
  EXPECT_EQ(last, temp.file("runs/lenet-2024-05-31-11"));
  temp.write("runs/lenet-2024-05-31-11/metrics.jsonl", "{\"step\":1}\n");
  std::filesystem::create_directory(temp.file("runs/lenet-big-2025-05-31-1"));
  const auto resumed = RunFolder::open(at("", true));
  ASSERT_TRUE(resumed.ok()) << resumed.error().to_string();
  EXPECT_EQ(resumed->path(), last);
  std::filesystem::current_path(before);
}

TEST(JobInput, SettingsChangeAndAddKeys) {
  const TempFolder temp;
  const std::string path = temp.write("jobs/a.yaml", kJob);
  const auto job = load_job(path, {"optimizer.lr=0.5", "lr.policy=cosine", "batch.local=[4, 2]", "epochs=3",
                                   "batch.adapt={target: 0.2}", "batch.adapt.rate=0.3", "profiles=here"});
  ASSERT_TRUE(job.ok()) << job.error().to_string();
  EXPECT_EQ(job->optimizer.lr, 0.5);
  EXPECT_EQ(job->lr.policy, plan::LrPolicy::kCosine);
  EXPECT_THAT(job->batch.local, ElementsAre(4, 2));
  EXPECT_EQ(job->epochs, 3);
  EXPECT_EQ(job->batch.adapt->target, 0.2);
  EXPECT_EQ(job->batch.adapt->rate, 0.3);
  EXPECT_EQ(job->data.path, temp.file("jobs/data")) << "from the folder of the file";
  EXPECT_EQ(job->profiles, (std::filesystem::current_path() / "here").string()) << "from the current folder";
}

TEST(JobInput, BadSettingsNameTheKey) {
  const TempFolder temp;
  const std::string path = temp.write("a.yaml", kJob);
  const auto expect = [&](const std::string& setting, const std::string& where, const std::string& message) {
    const auto job = load_job(path, {"epochs=2", setting});
    expect_input_error(job, message);
    EXPECT_EQ(job.ok() ? "" : job.error().where.to_string(), where);
  };
  expect("lr", "--set", "expected key=value");
  expect("=3", "--set", "expected key=value");
  expect("optimizer.lrr=3", "--set optimizer.lrr", "did you mean `lr`?");
  expect("optimiser.lr=3", "--set optimiser.lr", "did you mean `optimizer`?");
  expect("optimizer.lr=fast", "--set optimizer.lr", "fast");
  expect("optimizer.lr=-1", "--set optimizer.lr", "-1");
  expect("model.name.x=1", "--set model.name.x", "found the text `lenet` at `model.name`, expected a map");
  expect("optimizer..lr=1", "--set optimizer..lr", "empty part");
  expect("batch.local=[4", "--set batch.local", "");
  expect("batch.local=[4, x]", "--set batch.local", "x");
  // Faults of the file stay where they are.
  const auto broken = load_job(temp.write("b.yaml", std::string(kJob) + "epochz: 3\n"), {"epochs=2"});
  expect_input_error(broken, "epochz");
  EXPECT_EQ(broken.error().where.line, 6);
}

TEST(JobInput, Names) {
  EXPECT_EQ(job_name("jobs/lenet.yaml"), "lenet");
  EXPECT_EQ(job_name("examples/unlike-gpus/job.yaml"), "unlike-gpus");
  EXPECT_EQ(job_name("a b.yaml"), "job");
}

TEST(Recorder, MetricsAreCutAtTheStepThatComesAgain) {
  EXPECT_EQ(metrics_before("{\"step\":1,\"x\":0}\n{\"step\":2,\"x\":0}\n{\"step\":3,\"x\":0}\n{\"step\":4,\"x", 3),
            "{\"step\":1,\"x\":0}\n{\"step\":2,\"x\":0}\n");
  EXPECT_EQ(metrics_before("", 3), "");
  EXPECT_EQ(metrics_before("garbage\n{\"step\":1}\n", 9), "{\"step\":1}\n");
}

TEST(Recorder, WritesWhatTheContractSays) {
  const TempFolder temp;
  temp.write("metrics.jsonl", "{\"step\":1,\"x\":0}\n{\"step\":2,\"x\":0}\n");
  temp.write("result.json", "{}");
  Recorder recorder(temp.path(), true);
  ASSERT_TRUE(
      recorder.event({.kind = "plan", .detail = "d", .step = 0, .values = {{"equal_split_step_seconds", 2.0}}}).ok());
  EXPECT_TRUE(base::exists(temp.file("result.json"))) << "nothing has changed yet";
  ASSERT_TRUE(recorder
                  .step({.step = 2,
                         .epoch = 0,
                         .gbs = 8,
                         .lbs = 4,
                         .workers = 2,
                         .loss = std::nan(""),
                         .lr = 0.1,
                         .step_seconds = 0.5,
                         .samples_per_second = 16,
                         .samples = 8,
                         .total_samples = 16})
                  .ok());
  EXPECT_FALSE(base::exists(temp.file("result.json"))) << "a run that goes on is not finished";
  ASSERT_TRUE(
      recorder.event({.kind = "evaluation", .detail = "e", .step = 2, .values = {{"test_accuracy", 0.5}}}).ok());
  EXPECT_EQ(read_text(temp.file("metrics.jsonl")),
            "{\"step\":1,\"x\":0}\n{\"step\":2,\"epoch\":0,\"gbs\":8,\"lbs\":4,\"workers\":2,\"loss\":null,\"lr\":0.1,"
            "\"step_seconds\":0.5,\"samples_per_second\":16.0,\"samples\":8,\"total_samples\":16}\n");
  const auto result = recorder.finish({.steps = 2, .weights_sha256 = "ab"}, 3.5, 1.0, profile::Source::kEstimate);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->samples_per_second, 16);
  EXPECT_EQ(result->equal_split_step_seconds, 2);
  EXPECT_EQ(result->plan_source, profile::Source::kEstimate);
  EXPECT_TRUE(load_result(temp.file("result.json")).ok());

  int boards = 0;
  const auto names = *base::list_folder(temp.path());
  for (const auto& name : names) {
    if (!name.starts_with("events.out.tfevents.")) continue;
    ++boards;
    const auto events = yoke::testing::read_board(read_text(temp.file(name)));
    ASSERT_EQ(events.size(), 4U);
    EXPECT_TRUE(events[1].restart);
    EXPECT_EQ(events[2].scalars.at("gbs"), 8);
    EXPECT_EQ(events[3].scalars.at("test_accuracy"), 0.5F);
  }
  EXPECT_EQ(boards, 1);
}

TEST(RunResult, IsReadBackAsWritten) {
  const TempFolder temp;
  RunResult result;
  result.rank = {.steps = 3, .samples = 96, .epochs = 1.5, .train_loss = 0.25, .test_accuracy = 0.9};
  result.rank.predicted_step_seconds = 0.11;
  result.rank.measured_step_seconds = 0.1;
  result.rank.weights_sha256 = "abc";
  result.rank.recoveries = 1;
  result.wall_seconds = 9;
  result.equal_split_step_seconds = 0.165;
  result.plan_source = profile::Source::kEstimate;
  ASSERT_TRUE(save_result(temp.file("result.json"), result).ok());
  const auto back = load_result(temp.file("result.json"));
  ASSERT_TRUE(back.ok()) << back.error().to_string();
  EXPECT_EQ(to_json(*back).dump(), to_json(result).dump());
  EXPECT_EQ(back->plan_source, profile::Source::kEstimate);
  EXPECT_NEAR(*prediction_error(back->rank), 0.1, 1e-12);
  EXPECT_THAT(to_json(result).dump(), HasSubstr("\"prediction_error\":0.0999"));
  const std::string text = summarize(result, "runs/x");
  EXPECT_THAT(text, AllOf(HasSubstr("90.00%"), HasSubstr("10.0% too long"),
                          HasSubstr("1.50 times as fast as the equal"), HasSubstr("run folder     runs/x")));
}

TEST(Devices, ThreadsAndPlaces) {
  const auto cluster = *cluster::parse_cluster(
      "nodes:\n- {name: a, devices: 2, speed: 0.5, memory: 1GB}\n- {name: b, devices: 1, type: x}\n", "c.yaml");
  const auto emulated = emulated_devices(cluster, 8);
  ASSERT_EQ(emulated.size(), 3U);
  EXPECT_EQ(emulated[1].id.to_string(), "a:1");
  EXPECT_EQ(emulated[1].speed, 0.5);
  EXPECT_EQ(emulated[1].memory_bytes, 1'000'000'000);
  EXPECT_EQ(emulated[1].threads, 2);
  EXPECT_EQ(emulated_devices(cluster, 2)[0].threads, 1);
  EXPECT_EQ(emulated[2].type, "x");
  // A plan may leave devices idle: they are not started, and the others have their cores.
  const plan::Plan plan{.gbs = 16, .lbs = 8, .data_lanes = {{.device = {"b", 0}}, {.device = {"a", 1}}}};
  const auto planned = emulated_devices(cluster, 8, &plan);
  ASSERT_EQ(planned.size(), 2U);
  EXPECT_EQ(planned[0].id.to_string(), "a:1");
  EXPECT_EQ(planned[1].id.to_string(), "b:0");
  EXPECT_EQ(planned[1].threads, 4);

  // Two ranks share host h and see all 8 cores; the one on i is bound to 3.
  const std::vector<RankPlace> places{{"h", 8, 8}, {"i", 3, 16}, {"h", 8, 8}};
  const auto found = cluster_of(places);
  ASSERT_TRUE(found.ok());
  const auto placed = placed_devices(*found, false, places);
  ASSERT_TRUE(placed.ok()) << placed.error().to_string();
  EXPECT_EQ((*placed)[0].id.to_string(), "h:0");
  EXPECT_EQ((*placed)[1].id.to_string(), "i:0");
  EXPECT_EQ((*placed)[2].id.to_string(), "h:1");
  EXPECT_EQ((*placed)[2].threads, 4);
  EXPECT_EQ((*placed)[1].threads, 3);
  EXPECT_EQ((*placed_devices(cluster, true, places))[2].id.to_string(), "b:0");
  expect_input_error(placed_devices(this_machine(), true, places), "found 1 devices");
  EXPECT_EQ(*parse_place(to_json(places[1]).dump()), places[1]);
}

TEST(Devices, ProcessorsLiveOffTheMemoryOfTheirMachine) {
  const auto limited = [](const std::string& type, std::optional<std::int64_t> own) {
    engine::DeviceSpec device{.id = {"n", 0}, .type = type, .memory_bytes = own};
    limit_memory(device, 1000);
    return device.memory_bytes;
  };
  EXPECT_EQ(limited("cpu", std::nullopt), 1000);
  EXPECT_EQ(limited("slow-cpu", std::nullopt), 1000);
  EXPECT_EQ(limited("slow-cpu", 5), 5);
  EXPECT_EQ(limited("V100", std::nullopt), std::nullopt);
}

TEST(Devices, OtherHostsAreToldFromThisOne) {
  const auto cluster = *cluster::parse_cluster(
      "nodes:\n- {name: a, devices: 2}\n- {name: b, address: 127.0.0.1}\n- {name: c, address: 192.0.2.7, devices: 3}\n",
      "c.yaml");
  EXPECT_THAT(nodes_elsewhere(cluster), ElementsAre("c"));
  EXPECT_EQ(mpirun_command(cluster, "job.yaml"), "mpirun -n 6 --host a:2,127.0.0.1:1,192.0.2.7:3 yoke train job.yaml");
}

TEST(Rendezvous, SetupsAndErrorsGetAround) {
  RunSetup setup{.folder = "/x", .job = example_job(), .resumes = true, .origin = 12.5};
  setup.devices = emulated_devices(*cluster::parse_cluster("nodes:\n- {name: a, devices: 2, memory: 1GB}\n", "c"), 4);
  const auto store = comm::make_memory_store();
  const base::SystemClock clock;
  const auto soon = base::Deadline::in(std::chrono::seconds(5), clock);
  ASSERT_TRUE(share_setup(*store, setup, soon).ok());
  const auto back = receive_setup(*store, soon);
  ASSERT_TRUE(back.ok()) << back.error().to_string();
  EXPECT_EQ(to_json(*back), to_json(setup));
  EXPECT_EQ(back->job, setup.job);
  const base::Error fault = base::input_error("no \"folder\"", {.file = "runs", .line = 3, .field = "f"});
  ASSERT_TRUE(share_setup(*store, fault, soon).ok());
  EXPECT_EQ(receive_setup(*store, soon).error(), fault);
  ASSERT_TRUE(share_setup(*store, base::peer_error("red \x1b[31m\n"), soon).ok());
  EXPECT_EQ(receive_setup(*store, soon).error().message, "red \\x1b[31m\\x0a") << "no text can steer a terminal";
}

}  // namespace
}  // namespace yoke::cli
