// `yoke import`: other tools' files into Yoke's own, with a report of what was ignored or guessed.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <ostream>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/cli/command.h"
#include "yoke/cluster/cluster_file.h"
#include "yoke/cluster/hostfile.h"
#include "yoke/plan/import/jabas.h"
#include "yoke/plan/import/job.h"
#include "yoke/plan/import/pipedream.h"
#include "yoke/profile/jabas/initial_config.h"
#include "yoke/profile/pipedream/driver.h"
#include "yoke/profile/pipedream/graph_text.h"
#include "yoke/profile/pipedream/partition.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::cli {
namespace {

namespace fs = std::filesystem;

struct ImportOptions {
  std::string file;                // the one that is imported, or
  std::vector<std::string> files;  // those of a PipeDream experiment
  std::string initial;             // JABAS's initial GPU config
  std::string out;
};

struct Report {
  std::vector<std::string> written;
  std::vector<std::string> notes;
};

/// The folder an import makes. It is filled under another name and moved into place whole, so that nobody ever sees
/// half an import; without commit() nothing stays.
class OutputFolder {
 public:
  static base::Result<OutputFolder> make(const std::string& path) {
    std::error_code code;
    if (fs::exists(path, code) && !(fs::is_directory(path, code) && fs::is_empty(path, code))) {
      return base::input_error("is there already and not an empty folder; choose another name or remove it",
                               {.file = path});
    }
    OutputFolder folder(path, fmt::format("{}.partial-{}", path, ::getpid()));
    YOKE_CHECK(base::make_folder(folder.partial_));
    return folder;
  }
  OutputFolder(OutputFolder&& other) noexcept
      : path_(std::move(other.path_)), partial_(std::exchange(other.partial_, "")) {}
  OutputFolder& operator=(OutputFolder&&) = delete;
  ~OutputFolder() {
    std::error_code ignored;
    if (!partial_.empty()) fs::remove_all(partial_, ignored);
  }

  /// Where to write for now.
  std::string file(std::string_view name) const { return base::join_path(partial_, name); }

  base::Status commit() {
    std::error_code code;
    fs::rename(partial_, path_, code);  // replaces an empty folder
    if (code)
      return base::peer_error(fmt::format("cannot move the import into place: {}", code.message()), {.file = path_});
    partial_.clear();
    return {};
  }

 private:
  OutputFolder(std::string path, std::string partial) : path_(std::move(path)), partial_(std::move(partial)) {}
  std::string path_;
  std::string partial_;  // empty once committed
};

base::Status finish(const ImportOptions& options, const Report& report, Context& context) {
  if (context.json) {
    print_json(context, {{"out", options.out}, {"written", report.written}, {"ignored", report.notes}});
    return {};
  }
  for (const auto& name : report.written)
    context.out << fmt::format("wrote    {}\n", name.empty() ? options.out : base::join_path(options.out, name));
  for (const auto& note : report.notes) context.out << fmt::format("note     {}\n", note);
  return {};
}

/// JABAS's initial GPU config as a cluster: worker i is the i-th available server.
base::Result<cluster::Cluster> initial_cluster(const cluster::Cluster& all, const std::string& path) {
  YOKE_TRY(const std::string text, base::read_file(path));
  YOKE_TRY(const auto gpus_of_worker, profile::jabas::parse_initial_config(text, path));
  std::vector<cluster::Node> nodes;
  for (const auto& [worker, gpus] : gpus_of_worker) {
    if (worker < 0 || static_cast<std::size_t>(worker) >= all.nodes().size()) {
      return base::input_error(
          fmt::format("found worker {}, but there are {} available servers", worker, all.nodes().size()),
          {.file = path, .field = std::to_string(worker)});
    }
    cluster::Node node = all.nodes()[static_cast<std::size_t>(worker)];
    if (gpus > node.devices) {
      return base::input_error(fmt::format("found {} GPUs, but {} has {}", gpus, node.name, node.devices),
                               {.file = path, .field = std::to_string(worker)});
    }
    node.devices = gpus;
    nodes.push_back(std::move(node));
  }
  return cluster::Cluster::make(std::move(nodes));
}

base::Status import_jabas(const ImportOptions& options, Context& context) {
  YOKE_TRY(const plan::JabasWorkspace workspace, plan::load_jabas(options.file));
  const plan::ImportedJob imported = plan::job_of(workspace);
  Report report{.written = {"cluster.yaml", "profiles", "job.yaml"}, .notes = workspace.notes};
  report.notes.insert(report.notes.end(), imported.notes.begin(), imported.notes.end());
  std::optional<cluster::Cluster> initial;
  if (!options.initial.empty()) {
    YOKE_TRY(initial, initial_cluster(workspace.cluster, options.initial));
    report.written.emplace_back("initial-cluster.yaml");
  }
  YOKE_TRY(OutputFolder out, OutputFolder::make(options.out));
  YOKE_CHECK(cluster::save_cluster(out.file("cluster.yaml"), workspace.cluster));
  YOKE_CHECK(profile::save_profiles(out.file("profiles"), workspace.profiles));
  YOKE_CHECK(base::publish_file(out.file("job.yaml"), plan::to_yaml(imported.job)));
  if (initial) YOKE_CHECK(cluster::save_cluster(out.file("initial-cluster.yaml"), *initial));
  YOKE_CHECK(out.commit());
  return finish(options, report, context);
}

/// The files of a PipeDream experiment, in any order, told apart by what is in them.
struct PipedreamFiles {
  std::optional<profile::LayerGraph> graph;
  std::optional<profile::pipedream::Partition> partition;
  std::optional<profile::pipedream::Driver> driver;
  std::vector<std::string> notes;
};

base::Result<PipedreamFiles> read_pipedream(const std::vector<std::string>& paths) {
  PipedreamFiles files;
  const auto twice = [](const std::string& path, std::string_view what) {
    return base::input_error(fmt::format("is a second {}, expected one of each kind", what), {.file = path});
  };
  const auto note = [&](const std::string& path, const std::vector<std::string>& ignored) {
    for (const auto& line : ignored) files.notes.push_back(fmt::format("{}: {}", path, line));
  };
  for (const auto& path : paths) {
    YOKE_TRY(const std::string text, base::read_file(path));
    if (base::trim(text).starts_with('{')) {
      if (files.partition) return twice(path, "partition config");
      YOKE_TRY(auto imported, profile::pipedream::parse_partition(text, path));
      note(path, imported.ignored);
      files.partition = std::move(imported.partition);
    } else if (text.find(" -- ") != std::string::npos) {
      if (files.graph) return twice(path, "layer graph");
      YOKE_TRY(files.graph, profile::pipedream::parse_graph_text(text, path));
    } else {
      if (files.driver) return twice(path, "driver file");
      YOKE_TRY(auto imported, profile::pipedream::parse_driver(text, path));
      note(path, imported.ignored);
      files.driver = std::move(imported.driver);
    }
  }
  return files;
}

base::Result<cluster::Cluster> cluster_for(const PipedreamFiles& files) {
  if (files.driver) return plan::cluster_of(*files.driver);
  int ranks = 0;
  for (const auto& stage : files.partition->ranks_of_stage) ranks += static_cast<int>(stage.size());
  return cluster::Cluster::make({{.name = "localhost", .devices = ranks}});
}

base::Status import_pipedream(const ImportOptions& options, Context& context) {
  YOKE_TRY(const PipedreamFiles files, read_pipedream(options.files));
  Report report{.notes = files.notes};
  YOKE_TRY(OutputFolder out, OutputFolder::make(options.out));
  if (files.graph) {
    YOKE_CHECK(profile::save_layers(out.file("profiles"), *files.graph));
    report.written.emplace_back("profiles/layers.json");
  }
  if (files.driver || files.partition) {
    YOKE_TRY(const cluster::Cluster cluster, cluster_for(files));
    YOKE_CHECK(cluster::save_cluster(out.file("cluster.yaml"), cluster));
    report.written.emplace_back("cluster.yaml");
    if (files.partition) {
      const std::string model = files.driver ? plan::model_name_of(*files.driver) : "unknown";
      const std::int64_t lbs = files.driver ? files.driver->batch_size.value_or(64) : 64;
      if (!files.driver)
        report.notes.emplace_back("no driver file: plan.json says local batch 64 of an unknown model on localhost");
      YOKE_TRY(const plan::Plan plan, plan::plan_of(*files.partition, files.graph, cluster, model, lbs));
      YOKE_CHECK(base::publish_file(out.file("plan.json"), plan::to_json(plan)));
      report.written.emplace_back("plan.json");
    }
  }
  if (files.driver) {
    const plan::ImportedJob imported = plan::job_of(*files.driver, files.partition);
    report.notes.insert(report.notes.end(), imported.notes.begin(), imported.notes.end());
    YOKE_CHECK(base::publish_file(out.file("job.yaml"), plan::to_yaml(imported.job)));
    report.written.emplace_back("job.yaml");
  }
  YOKE_CHECK(out.commit());
  return finish(options, report, context);
}

base::Status import_hostfile(const ImportOptions& options, Context& context) {
  YOKE_TRY(const std::string text, base::read_file(options.file));
  YOKE_TRY(const cluster::ImportedCluster imported, cluster::parse_hostfile(text, options.file));
  YOKE_CHECK(cluster::save_cluster(options.out, imported.cluster));
  return finish(options, {.written = {""}, .notes = imported.ignored}, context);
}

}  // namespace

void add_import(CLI::App& app, Action& chosen) {
  CLI::App& group = add_group(app, "import", "turn other tools' files into Yoke's own");
  constexpr const char* kFolder = "folder to make";
  for (const char* name : {"jabas", "iidp"}) {
    add_command<ImportOptions>(
        group, chosen, name,
        fmt::format("{} config JSON and the profile folders it names", name == std::string("jabas") ? "JABAS" : "IIDP"),
        [](Arguments& parser, ImportOptions& options) {
          parser.required("config", options.file, "config JSON");
          parser.option("--initial", options.initial, "JABAS initial GPU config JSON");
          parser.required("--out", options.out, kFolder);
        },
        import_jabas);
  }
  add_command<ImportOptions>(
      group, chosen, "pipedream", "PipeDream graph.txt, partition config JSON and driver YAML",
      [](Arguments& command, ImportOptions& options) {
        command.required("files", options.files, "any of graph.txt, partition JSON, driver YAML");
        command.required("--out", options.out, kFolder);
      },
      import_pipedream);
  add_command<ImportOptions>(
      group, chosen, "hostfile", "an MPI or Horovod hostfile",
      [](Arguments& command, ImportOptions& options) {
        command.required("hostfile", options.file, "hostfile");
        command.required("--out", options.out, "cluster file to write");
      },
      import_hostfile);
}

}  // namespace yoke::cli
