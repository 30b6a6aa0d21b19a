// Everything a user may hand over by mistake, through the command line: exit code 2, one message that names the file,
// and nothing written. What the messages say in detail is tested beside each reader.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tests/cli/run_yoke.h"
#include "tests/support/files.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace yoke::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using yoke::testing::read_text;
using yoke::testing::TempFolder;

const std::string kSource = yoke::testing::kSourceDir;
const std::string kJabas = kSource + "/tests/plan/import/data/jabas";
const std::string kProfiles = kSource + "/tests/profile/data/folder";
const std::string kExample = kSource + "/examples/unlike-gpus";

constexpr const char* kGraph =
    "a -- Conv -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=100.0, parameter_size=1000.0\n"
    "b -- Linear -- forward_compute_time=2.0, backward_compute_time=4.0, activation_size=10.0, parameter_size=9.0\n"
    "\ta -- b\n";
constexpr const char* kPartition =
    R"({"module_to_stage_map": [0, 1, 1], "stage_to_rank_map": {"0": [0, 1], "1": [2]}, "stage_to_depth_map": {"0": 1, "1": 0}})";
constexpr const char* kCluster = "nodes:\n  - {name: east, devices: 2, inter_bandwidth: 1e9}\n  - {name: west}\n";

/// One input error on one line, and nothing else. `part` is what the message must hold.
void expect_refused(const Outcome& outcome, const std::string& part) {
  EXPECT_EQ(outcome.code, 2) << part << "\n" << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, StartsWith("yoke: error: "));
  EXPECT_THAT(outcome.err, HasSubstr(part));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_LT(outcome.err.size(), 1000U);
}

/// Each way to hand one file to a command. What would be written goes to `<folder>/out`.
std::vector<std::vector<std::string>> commands_that_read(const std::string& file, const std::string& folder) {
  const std::string out = folder + "/out";
  return {
      {"plan", "batch", "--gbs", "1024", "--profiles", kExample + "/profiles", "--out", out, "--cluster", file},
      {"plan", "batch", "--gbs", "1024", "--out", out, "--config", file},
      {"plan", "pipeline", "--devices", "2", "--bandwidth", "1e9", "--lbs", "1", "--out", out, "--profile", file},
      {"plan", "pipeline", "--profile", kProfiles, "--lbs", "1", "--out", out, "--cluster", file},
      {"profile", "show", file},
      {"plan", "auto", "--profile", kProfiles, "--lbs", "1", "--gbs", "8", "--out", out, "--cluster", file},
      {"plan", "auto", "--cluster", kExample + "/cluster.yaml", "--lbs", "1", "--gbs", "8", "--out", out, "--profile",
       file},
      {"plan", "auto", "--cluster", kExample + "/cluster.yaml", "--out", out, "--job", file},
      {"explain", "--svg", out, file},
      {"simulate", "--svg", out, file},
      {"import", "jabas", "--out", out, file},
      {"import", "iidp", "--out", out, file},
      {"import", "jabas", "--out", out, kJabas + "/config.json", "--initial", file},
      {"import", "pipedream", "--out", out, file},
      {"import", "hostfile", "--out", out, file},
  };
}

void expect_all_refuse(const TempFolder& folder, const std::string& file) {
  const auto before = *base::list_folder(folder.path());
  for (const auto& command : commands_that_read(file, folder.path())) {
    SCOPED_TRACE(command[0] + " " + command[1]);
    expect_refused(yoke(command), file);
  }
  EXPECT_EQ(*base::list_folder(folder.path()), before) << "half an output";
}

TEST(BadInput, WhatIsNoFile) {
  const TempFolder folder;
  expect_all_refuse(folder, folder.file("absent"));
  expect_all_refuse(folder, "/dev/null");
  fs::create_symlink("nothing", folder.file("dangling"));
  expect_all_refuse(folder, folder.file("dangling"));
  fs::create_directory(folder.file("folder"));
  expect_all_refuse(folder, folder.file("folder"));
}

TEST(BadInput, WhatIsNoText) {
  const TempFolder folder;
  expect_all_refuse(folder, folder.write("empty", ""));
  expect_all_refuse(folder, folder.write("blank", " \n\t\n"));
  expect_all_refuse(folder, folder.write("bytes", std::string("\x7f"
                                                              "ELF\0\xff\xfe\x80 -- \0",
                                                              13)));
  expect_all_refuse(folder, folder.write("open.json", "{"));
  expect_all_refuse(folder, folder.write("other.json", "[1, \"a\", null]"));
  expect_all_refuse(folder, folder.write("deep.json", std::string(100'000, '[')));
  expect_all_refuse(folder, folder.write("deep", std::string(100'000, '{')));
}

TEST(BadInput, AHundredMegabytesAreRefusedUnread) {
  const TempFolder folder;
  fs::resize_file(folder.write("huge", "{"), 100'000'000);
  expect_all_refuse(folder, folder.file("huge"));
}

TEST(BadInput, MegabytesOfGarbageWithinTheLimit) {
  const TempFolder folder;
  std::string garbage(20'000'000, '\0');
  std::uint64_t state = 1;
  for (char& c : garbage) c = static_cast<char>((state = state * 6364136223846793005U + 1442695040888963407U) >> 56);
  expect_all_refuse(folder, folder.write("garbage", garbage));
  expect_all_refuse(folder, folder.write("letters", std::string(20'000'000, 'x')));
}

/// A copy of a folder whose files a test spoils one by one.
class Spoiled {
 public:
  explicit Spoiled(const std::string& original) { fs::copy(original, path(), fs::copy_options::recursive); }

  std::string path() const { return folder_.file("copy"); }
  std::string out() const { return folder_.file("out"); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(path())) {
      if (entry.is_regular_file()) names.push_back(entry.path().string());
    }
    return names;
  }
  /// Runs, expects a refusal that names `file`, and that nothing else was left in the folder.
  void expect_refusal(const std::vector<std::string>& command, const std::string& part) const {
    expect_refused(yoke(command), part);
    EXPECT_EQ(base::list_folder(folder_.path())->size(), 1U) << "half an output";
  }

 private:
  TempFolder folder_;
};

/// Empty, cut in half, garbage, a folder, gone: each file of the folder in turn.
void spoil_every_file(const Spoiled& spoiled, const std::vector<std::string>& command, bool all_needed) {
  for (const auto& file : spoiled.files()) {
    SCOPED_TRACE(file);
    const std::string good = read_text(file);
    const auto expect_refusal_of = [&](const std::string& content) {
      std::ofstream(file, std::ios::binary) << content;
      spoiled.expect_refusal(command, file);
    };
    expect_refusal_of("");
    expect_refusal_of(std::string("\0\xff{", 3));
    if (file.ends_with(".json")) expect_refusal_of(good.substr(0, good.size() / 2));
    fs::remove(file);
    fs::create_directory(file);
    spoiled.expect_refusal(command, file);
    fs::remove(file);
    if (all_needed) expect_refused(yoke(command), "copy/");
    std::ofstream(file, std::ios::binary) << good;
  }
  EXPECT_EQ(yoke(command).code, 0) << "mended again";
}

TEST(BadInput, EveryFileOfAJabasWorkspace) {
  const Spoiled workspace(kJabas);
  const std::vector<std::string> command{"import", "jabas", workspace.path() + "/config.json", "--out",
                                         workspace.out()};
  // What may be absent goes first, so that every file left is needed.
  fs::remove(workspace.path() + "/comm_profile_data/inter_comm_profile_data.txt");
  fs::remove(workspace.path() + "/cluster_comp_profile_data/16/fast/tiny_16_2_comp_profile.json");
  ASSERT_EQ(workspace.files().size(), 8U);
  spoil_every_file(workspace, command, true);
}

TEST(BadInput, EveryFileOfAProfileFolder) {
  const Spoiled profiles(kProfiles);
  spoil_every_file(profiles, {"profile", "show", profiles.path()}, false);
}

/// Replaces `from` by `to` in one file, expects a refusal with `part`, and mends the file.
void expect_edit_refused(const Spoiled& spoiled, const std::vector<std::string>& command, const std::string& name,
                         const std::string& from, const std::string& to, const std::string& part) {
  SCOPED_TRACE(name + ": " + to);
  const std::string file = spoiled.path() + "/" + name;
  const std::string good = read_text(file);
  std::string bad = good;
  ASSERT_NE(bad.find(from), std::string::npos);
  bad.replace(bad.find(from), from.size(), to);
  std::ofstream(file, std::ios::binary) << bad;
  const Outcome outcome = yoke(command);
  expect_refused(outcome, name);
  EXPECT_THAT(outcome.err, HasSubstr(part));
  std::ofstream(file, std::ios::binary) << good;
}

TEST(BadInput, ValuesOfAJabasWorkspace) {
  const Spoiled workspace(kJabas);
  const std::vector<std::string> command{"import", "jabas", workspace.path() + "/config.json", "--out",
                                         workspace.out()};
  const auto refused = [&](const std::string& name, const std::string& from, const std::string& to,
                           const std::string& part) { expect_edit_refused(workspace, command, name, from, to, part); };
  const std::string compute = "cluster_comp_profile_data/16/slow/tiny_16_1_comp_profile.json";
  const std::string memory = "cluster_mem_profile_data/16/slow/max_memory_profile_info.json";
  const std::string buckets = "bucket_profile_data/tiny_bucket_size_profile.json";
  const std::string intra = "comm_profile_data/intra_comm_profile_data.txt";
  for (const std::string number : {"37.5", "75.0", "119.0"}) {
    refused(compute, number, "NaN", "not valid JSON");
    refused(compute, number, "-1", "found `-1`, expected a number >= 0");
    refused(compute, number, "1e999", "1e999");
    refused(compute, number, "\"fast\"", "found the text `fast`, expected a number");
    refused(compute, number, "null", "found nothing, expected a number");
  }
  refused(compute, "\"lbs\": 16", "\"lbs\": 32", "lbs: found lbs 32");
  refused(compute, "\"lbs\": 16", "\"lbs\": 99999999999999999999", "lbs: found");
  refused(compute, "\"num_models\": 1", "\"num_models\": 0", "num_models: found `0`");
  refused(compute, "\"fwd_time\"", "\"fwd_tiem\"", "required key `fwd_time` is missing");
  refused(memory, "8000000000", "-8", "total_memory: found `-8`");
  refused(memory, "\"max_num_models\": 1", "\"max_num_models\": 1.5", "max_num_models: found `1.5`");
  refused(memory, "Slow GPU", "Fast GPU", "gpu_type: found `Fast GPU`, expected `Slow GPU`");
  refused(buckets, "25.25", "-25.25", "bucket_size_distribution[1]: found `-25.25`");
  refused(buckets, "[1.5, 25.25, 9.0]", "{}", "bucket_size_distribution: found a map, expected a list");
  refused(intra, "1,2.25", "1,nan", ":2: found");
  refused(intra, "1,2.25", "1", ":2: found");
  refused(intra, "1,2.25", "1,-2.25", ":2: found");
  refused("cluster_info.json", "\"number\": 4", "\"number\": -4", "fast.number: found `-4`");
  refused("cluster_info.json", "\"number\": 4", "\"number\": 1e30", "fast.number: found `1e30`");
  refused("cluster_info.json", "\"slow\"", "\"fast\"", "`fast`");
  refused("cluster_info.json", "10000000000", "true", "intra_network_bandwidth: found true, expected a bandwidth");
  refused("config.json", "\"slow\"", "\"slwo\"",
          "available_servers: the cluster has no node `slwo`, did you mean `slow`?");
  refused("config.json", "\"slow\"", "\"fast\"", "`fast`");
  refused("config.json", "\"cluster_comp_profile_data\"", "\"gone\"", "comp_profile_dir: there is no `gone`");
  refused("config.json", "0.25", "-7", "similarity_target: found `-7`");
}

TEST(BadInput, ProfilesThatTheConfigDoesNotName) {
  const Spoiled workspace(kJabas);
  const std::vector<std::string> command{"import", "jabas", workspace.path() + "/config.json", "--out",
                                         workspace.out()};
  const std::string top = workspace.path() + "/cluster_comp_profile_data/16";
  fs::copy(top + "/slow", top + "/slwo", fs::copy_options::recursive);
  workspace.expect_refusal(command,
                           "16/slwo: found profiles of the host `slwo`, which the cluster does not have, did "
                           "you mean `slow`?");
  fs::remove_all(top + "/slwo");
  fs::copy(top, workspace.path() + "/cluster_comp_profile_data/32", fs::copy_options::recursive);
  workspace.expect_refusal(command, "lbs: found lbs 16 in the folder of lbs 32");
  fs::rename(workspace.path() + "/cluster_comp_profile_data/32", workspace.path() + "/cluster_comp_profile_data/many");
  workspace.expect_refusal(command, "found the folder `many`, expected a local batch size");
  fs::remove_all(workspace.path() + "/cluster_comp_profile_data/many");
  fs::remove_all(top + "/slow");
  workspace.expect_refusal(command, "found no profile of node `slow`");
}

TEST(BadInput, ValuesOfAProfileFolder) {
  const Spoiled profiles(kProfiles);
  const auto refused = [&](const std::string& name, const std::string& from, const std::string& to,
                           const std::string& part) {
    expect_edit_refused(profiles, {"profile", "show", profiles.path()}, name, from, to, part);
  };
  refused("nodes/east.json", "\"total_ms\": 44.0", "\"total_ms\": -44", ":27: local_batches[0].compute[0].total_ms");
  refused("nodes/east.json", "\"total_ms\": 44.0", "\"total_ms\": 1e400", ":27: the number `1e400` is too large");
  refused("nodes/east.json", "\"total_ms\": 44.0", "\"total_ms\": []", "found a list of 0, expected a number");
  refused("nodes/east.json", "\"node\": \"east\"", "\"node\": \"west\"", "found the node `west`");
  refused("nodes/east.json", "\"model\"", "\"modle\"", "required key `model` is missing");
  refused("nodes/east.json", "\"vsw\": 2", "\"vsw\": 1", "vsw");
  refused("nodes/east.json", "\"version\": 3", "\"version\": 9", "version");
  refused("buckets.json", "25.25", "0", "mebibytes[1]: found `0`");
  refused("comm.json", "1.5", "false", "intra[0].measured_ms: found false");
  refused("layers.json", "\"lstm\"", "\"in\"", "`in`");
  refused("layers.json", "1.5", "-1.5", "forward_ms");
}

TEST(BadInput, GraphsWithCyclesAndLooseEnds) {
  const TempFolder folder;
  const std::string good = kGraph;
  const auto refused = [&](const std::string& text, const std::string& part) {
    SCOPED_TRACE(text);
    const std::string file = folder.write("graph.txt", text);
    expect_refused(yoke({"profile", "show", file}), part);
    expect_refused(yoke({"plan", "pipeline", "--profile", file, "--devices", "2", "--bandwidth", "1e9"}), part);
    expect_refused(yoke({"import", "pipedream", file, "--out", folder.file("out")}), part);
    EXPECT_EQ(base::list_folder(folder.path())->size(), 1U) << "half an output";
  };
  refused(good + "\tb -- a\n", "graph.txt: edges: found the cycle");
  refused(good + "\ta -- a\n", "graph.txt: edges: found the cycle `a -> a`, expected a graph without cycles");
  refused(good + "\ta -- c\n", "graph.txt:4");
  refused(good + good, "graph.txt:4");
  refused(good.substr(0, good.find("activation")), "graph.txt:1");
  for (const std::string number : {"nan", "inf", "-1.0", "1e999", "", "x"}) {
    std::string bad = good;
    bad.replace(bad.find("2.0, act"), 3, number);
    refused(bad, "graph.txt:1");
  }
}

TEST(BadInput, PartitionsDriversHostfilesAndClusters) {
  const TempFolder folder;
  const auto refused = [&](std::vector<std::string> command, const std::string& name, const std::string& text,
                           const std::string& part) {
    SCOPED_TRACE(text);
    command.push_back(folder.write(name, text));
    const Outcome outcome = yoke(command);
    expect_refused(outcome, name);
    EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_FALSE(fs::exists(folder.file("out")));
  };
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  const std::vector<std::string> pipedream{"import", "pipedream", "--out", folder.file("out")};
  refused(pipedream, "p.json", replaced(kPartition, "[0, 1, 1]", "[0, 1, -1]"), "module_to_stage_map[2]: found `-1`");
  refused(pipedream, "p.json", replaced(kPartition, "[0, 1, 1]", "[0, 1, 9]"), "module_to_stage_map");
  refused(pipedream, "p.json", replaced(kPartition, "[2]", "[1]"), "stage_to_rank_map");
  refused(pipedream, "p.json", replaced(kPartition, "[2]", "[99999999999999]"), "stage_to_rank_map");
  refused(pipedream, "p.json", replaced(kPartition, "\"1\": 0", "\"1\": \"x\""), "stage_to_depth_map");
  refused(pipedream, "d.yml", "module: m\n", "required key");
  const std::vector<std::string> hostfile{"import", "hostfile", "--out", folder.file("out")};
  refused(hostfile, "hosts", "a slots=2\nb slots=-2\n", "hosts:2: ");
  refused(hostfile, "hosts", "a slots=2\nb slots=nan\n", "hosts:2: ");
  refused(hostfile, "hosts", "a slots=99999999999999999999\n", "hosts:1: ");
  refused(hostfile, "hosts", "me@a slots=2\nyou@a slots=2\n", "hosts:2: ");
  const std::vector<std::string> cluster{
      "plan", "batch", "--gbs", "64", "--profiles", kProfiles, "--out", folder.file("out"), "--cluster"};
  refused(cluster, "c.yaml", replaced(kCluster, "devices: 2", "devices: -2"), "c.yaml:2: nodes[0].devices: found `-2`");
  refused(cluster, "c.yaml", replaced(kCluster, "devices: 2", "devices: 1e99"), "nodes[0].devices: found `1e99`");
  refused(cluster, "c.yaml", replaced(kCluster, "devices: 2", "devices: .nan"), "nodes[0].devices");
  refused(cluster, "c.yaml", replaced(kCluster, "devices: 2", "devces: 2"), "did you mean `devices`?");
  refused(cluster, "c.yaml", replaced(kCluster, "1e9", ".nan"), "nodes[0].inter_bandwidth");
  refused(cluster, "c.yaml", replaced(kCluster, "west", "east"), "nodes[1]");
  refused(cluster, "c.yaml", "nodes: []\n", "nodes");
}

/// Runs the command in a process that has no more rights than any user: root may read and write everything.
Outcome yoke_without_rights(const std::vector<std::string>& command) {
  int ends[2];
  if (::pipe(ends) != 0) return {-1, "", "no pipe"};
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr unsigned kNobody = 65534;
    if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) ::_exit(99);
    const Outcome outcome = yoke(command);
    const bool told = ::write(ends[1], outcome.err.data(), outcome.err.size()) >= 0;
    ::_exit(told ? outcome.code : 99);
  }
  ::close(ends[1]);
  Outcome outcome;
  char part[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], part, sizeof part)) > 0;)
    outcome.err.append(part, static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

TEST(BadInput, NoPermission) {
  const TempFolder folder;
  fs::permissions(folder.path(), fs::perms(0755));
  const std::string file = folder.write("secret", kGraph);
  fs::permissions(file, fs::perms::none);
  fs::create_directory(folder.file("locked"));
  fs::permissions(folder.file("locked"), fs::perms::none);
  for (const std::string& closed : {file, folder.file("locked"), folder.file("locked/file")}) {
    for (const auto& command : commands_that_read(closed, folder.path())) {
      SCOPED_TRACE(command[0] + " " + command[1]);
      expect_refused(yoke_without_rights(command), closed);
    }
  }
  fs::permissions(file, fs::perms(0644));
  for (const std::string& out : {folder.file("locked/out"), std::string("/proc/out")}) {
    const Outcome outcome = yoke_without_rights({"import", "pipedream", file, "--out", out});
    expect_refused(outcome, out);
  }
  fs::permissions(folder.file("locked"), fs::perms(0755));
}

TEST(BadInput, PlacesThatCannotBeWritten) {
  const TempFolder folder;
  const std::string file = folder.write("graph.txt", kGraph);
  const std::vector<std::string> plan{"plan",        "pipeline", "--profile", file, "--devices", "2",
                                      "--bandwidth", "1e9",      "--lbs",     "1",  "--out"};
  const auto with = [](std::vector<std::string> command, const std::string& out) {
    command.push_back(out);
    return command;
  };
  expect_refused(yoke(with(plan, folder.path())), "found a folder");
  expect_refused(yoke(with(plan, folder.file("no/folder/plan.json"))), "found no folder");
  expect_refused(yoke(with(plan, file + "/plan.json")), "graph.txt/plan.json");
  expect_refused(yoke(with(plan, "/dev/full")), "found a device");
  const std::vector<std::string> import{"import", "pipedream", file, "--out"};
  expect_refused(yoke(with(import, file)), "graph.txt: is there already");
  expect_refused(yoke(with(import, file + "/out")), "graph.txt/out");
  EXPECT_EQ(base::list_folder(folder.path())->size(), 1U) << "half an output";
}

}  // namespace
}  // namespace yoke::cli
