// Every host runs the command. They agree on one list of files before any content moves, every host has all content in
// its memory, checked, before any host writes, and each file appears whole or not at all. So a conflict, a lost host or
// an interruption leaves every folder as it was.
#include "yoke/cli/profile_sync.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "yoke/base/files.h"
#include "yoke/base/json.h"
#include "yoke/base/sha256.h"
#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cli/host_meeting.h"
#include "yoke/cli/launch/stop_signals.h"
#include "yoke/cli/profile_files.h"
#include "yoke/comm/store/proof.h"

namespace yoke::cli {
namespace {

using base::Result;
using base::Status;

/// Pieces that fit a message of the store.
constexpr std::size_t kPiece = 4U << 20U;

struct SyncOptions {
  std::string from;
  std::string to;
  HostOptions hosts;
  std::string token;
  std::string token_file;
  std::string prefer;
  bool replace = false;
};

struct SyncResult {
  std::vector<SharedFile> files;
  std::vector<std::string> unchanged;
};

/// The first host may make the token up; the others must be told.
Result<std::string> token_of(const SyncOptions& options, int rank, const Context& context) {
  if (!options.token.empty() && !options.token_file.empty()) {
    return option_error("--token", "found --token-file too, expected one of them");
  }
  if (!options.token.empty()) return options.token;
  if (!options.token_file.empty()) {
    YOKE_TRY(const std::string text, base::read_file(options.token_file, 4096));
    const std::string token(base::trim(text));
    if (token.empty()) return base::input_error("found no token in the file", {.file = options.token_file});
    return token;
  }
  if (rank > 0) {
    return option_error("--token", fmt::format("found none, expected the one that host {} shows or was given",
                                               options.hosts.hosts.front()));
  }
  std::string token = comm::random_text();
  context.log.info("the other hosts need --token {}", token);
  return token;
}

Result<std::optional<std::size_t>> preferred_of(const SyncOptions& options) {
  if (options.prefer.empty()) return std::optional<std::size_t>();
  const auto& hosts = options.hosts.hosts;
  const auto found = std::ranges::find(hosts, options.prefer);
  if (found != hosts.end()) return std::optional(static_cast<std::size_t>(found - hosts.begin()));
  return option_error("--prefer",
                      fmt::format("found {}, expected one of --hosts: {}{}", base::quote(options.prefer),
                                  base::join_words(hosts, "or"), base::did_you_mean(options.prefer, hosts)));
}

class Sync {
 public:
  Sync(const SyncOptions& options, std::optional<std::size_t> preferred, HostMeeting& meeting)
      : options_(options), preferred_(preferred), meeting_(meeting) {}

  Result<SyncResult> run(FileContents own) {
    contents_ = std::move(own);
    SyncResult result;
    YOKE_TRY(const auto told, say("files", own_manifest()));
    const auto checked = check(told, result);
    YOKE_CHECK(say("checked", checked.ok() ? Result<std::string>("") : checked.error()));
    YOKE_CHECK(say("sent", done(send(result.files))));
    YOKE_CHECK(say("received", done(receive(result.files))));
    // A request to stop that comes now waits: all hosts have agreed to write.
    const StopSignals later(StopSignals::Second::kCounts);
    YOKE_CHECK(say("written", done(write(result))));
    return result;
  }

 private:
  Result<std::vector<std::string>> say(const std::string& phase, const Result<std::string>& word) {
    return meeting_.exchange(phase, word, meeting_.patience());
  }
  static Result<std::string> done(const Status& status) {
    return status.ok() ? Result<std::string>("") : status.error();
  }

  Result<std::string> own_manifest() const {
    std::vector<SyncFile> files;
    for (const auto& [name, content] : contents_) {
      YOKE_TRY(SyncFile file, describe_file(name, content, base::join_path(options_.from, name)));
      files.push_back(std::move(file));
    }
    return fmt::format("{}\n{}", options_.prefer, to_manifest(files));
  }

  Status check(const std::vector<std::string>& told, SyncResult& result) const {
    std::vector<HostFiles> hosts;
    for (std::size_t i = 0; i < told.size(); ++i) {
      const std::string host = meeting_.describe(static_cast<int>(i));
      const auto line = told[i].find('\n');
      if (told[i].substr(0, line) != options_.prefer) {
        return option_error("--prefer",
                            fmt::format("host {} was given {}, this one {}; expected the same on all", host,
                                        base::quote(told[i].substr(0, line)), base::quote(options_.prefer)));
      }
      YOKE_TRY(std::vector<SyncFile> files, parse_manifest(told[i].substr(line + 1), host));
      hosts.push_back({host, std::move(files)});
    }
    YOKE_TRY(result.files, unite(hosts, preferred_));
    YOKE_CHECK(check_writable(options_.to));
    YOKE_TRY(result.unchanged, check_target(options_.to, result.files, options_.replace));
    return {};
  }

  static std::string key(std::size_t file, std::size_t piece) { return fmt::format("file/{}/{}", file, piece); }
  static std::size_t pieces(const SyncFile& file) {
    return (static_cast<std::size_t>(file.bytes) + kPiece - 1) / kPiece;
  }

  Status send(const std::vector<SharedFile>& files) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (static_cast<int>(files[i].owner) != meeting_.rank()) continue;
      const std::string_view content = contents_.at(files[i].file.name);
      for (std::size_t piece = 0; piece < pieces(files[i].file); ++piece) {
        YOKE_CHECK(meeting_.store().set(key(i, piece), content.substr(piece * kPiece, kPiece), meeting_.patience()));
      }
    }
    return {};
  }

  Status receive(const std::vector<SharedFile>& files) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      const SyncFile& file = files[i].file;
      const auto own = contents_.find(file.name);
      if (own != contents_.end() && base::sha256(own->second) == file.sha256) continue;
      std::string content;
      for (std::size_t piece = 0; piece < pieces(file); ++piece) {
        YOKE_TRY(const std::string part, meeting_.store().get(key(i, piece), meeting_.patience()));
        content += part;
      }
      const std::string from = fmt::format("host {}", meeting_.describe(static_cast<int>(files[i].owner)));
      if (const std::string sum = base::sha256(content); sum != file.sha256) {
        return base::peer_error(fmt::format("arrived from {} with sha256 {}, expected {}", from, sum, file.sha256),
                                {.file = file.name});
      }
      YOKE_TRY(const SyncFile arrived, describe_file(file.name, content, fmt::format("{} of {}", file.name, from)));
      base::require(arrived.sha256 == file.sha256, "one content has two checksums");
      contents_[file.name] = std::move(content);
    }
    return {};
  }

  Status write(const SyncResult& result) const {
    YOKE_CHECK(base::make_folder(options_.to));
    for (const auto& shared : result.files) {
      const std::string& name = shared.file.name;
      if (std::ranges::binary_search(result.unchanged, name)) continue;
      const std::string path = base::join_path(options_.to, name);
      YOKE_CHECK(base::make_folder(base::parent_folder(path)));
      YOKE_CHECK(base::publish_file(path, contents_.at(name)));
    }
    return {};
  }

  const SyncOptions& options_;
  const std::optional<std::size_t> preferred_;
  HostMeeting& meeting_;
  FileContents contents_;
};

void report(const SyncOptions& options, const SyncResult& result, const HostMeeting& meeting, Context& context) {
  const std::size_t written = result.files.size() - result.unchanged.size();
  std::vector<std::string> notes;
  for (const auto& shared : result.files) {
    if (!shared.chosen) continue;
    notes.push_back(fmt::format("{}: the hosts have different ones, that of host {} counts (--prefer names another)",
                                shared.file.name, options.hosts.hosts.at(shared.owner)));
    context.log.warning("{}", notes.back());
  }
  if (context.json) {
    Json files = Json::array();
    for (const auto& shared : result.files) {
      const auto& [name, bytes, sum, model] = shared.file;
      files.push_back({{"name", name},
                       {"bytes", bytes},
                       {"sha256", sum},
                       {"from", options.hosts.hosts.at(shared.owner)},
                       {"written", !std::ranges::binary_search(result.unchanged, name)}});
    }
    print_json(context, {{"to", options.to},
                         {"hosts", options.hosts.hosts},
                         {"rank", meeting.rank()},
                         {"written", written},
                         {"unchanged", result.unchanged.size()},
                         {"notes", notes},
                         {"files", std::move(files)}});
    return;
  }
  context.out << fmt::format("{} files of {} hosts in {}: {} written, {} there already, all checksums right\n",
                             result.files.size(), meeting.size(), options.to, written, result.unchanged.size());
}

Status run_sync(const SyncOptions& options, Context& context) {
  YOKE_TRY(const int rank, options.hosts.own_rank());
  YOKE_TRY(const auto preferred, preferred_of(options));
  YOKE_TRY(FileContents own, read_profile_files(options.from));
  YOKE_CHECK(check_writable(options.to));
  YOKE_TRY(const std::string token, token_of(options, rank, context));
  YOKE_TRY(HostMeeting meeting, HostMeeting::join(options.hosts, token, context.clock));
  Sync sync(options, preferred, meeting);
  const auto result = sync.run(std::move(own));
  meeting.leave();
  if (!result.ok()) return result.error();
  report(options, *result, meeting, context);
  return {};
}

}  // namespace

void add_profile_sync(CLI::App& group, Action& chosen) {
  add_command<SyncOptions>(
      group, chosen, "sync", "bring every node's profiles to every node; all --hosts run this",
      [](Arguments& command, SyncOptions& options) {
        command.required("--from", options.from, "profile folder of this host");
        command.required("--to", options.to, "folder that gets the profiles of all hosts");
        options.hosts.declare(command);
        command.option("--token", options.token, "shared secret (default: the first host makes one and shows it)");
        command.option("--token-file", options.token_file, "file that holds it, which `ps` does not show");
        command.option("--prefer", options.prefer, "host whose files count where hosts have different ones");
        command.flag("--replace", options.replace, "replace other files of the same names in --to");
      },
      run_sync);
}

}  // namespace yoke::cli
