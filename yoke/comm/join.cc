#include "yoke/comm/join.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/comm/decorate/by_place.h"
#include "yoke/comm/gloo/gloo.h"
#include "yoke/comm/hierarchical/hierarchical.h"
#include "yoke/comm/local/local.h"
#include "yoke/comm/monitor.h"
#include "yoke/comm/mpi/mpi.h"
#include "yoke/comm/nccl/nccl.h"
#include "yoke/comm/shm/shm.h"

namespace yoke::comm {
namespace {

using Maker = base::Result<std::unique_ptr<Backend>> (*)(const BackendOptions&, const base::Deadline&);

struct Choice {
  std::string_view name;
  Maker make;
  BackendInfo (*info)();
};

BackendInfo always(std::string_view name, std::string_view detail) {
  return {.name = std::string(name), .available = true, .detail = std::string(detail)};
}

/// All backends but the hierarchical one, which needs to know who is where.
constexpr Choice kChoices[] = {
    {"local", make_local_backend, [] { return always("local", "threads of one process"); }},
    {"shm", make_shm_backend, [] { return always("shm", "processes of one host, shared memory"); }},
    {"gloo", make_gloo_backend, gloo_info},
    {"mpi", make_mpi_backend, mpi_info},
    {"nccl", make_nccl_backend, nccl_info},
};
constexpr std::string_view kHierarchical = "hierarchical";
constexpr std::string_view kNccl = "nccl";

/// What each rank says of itself.
struct Member {
  std::string size;
  std::string backend;
  std::string host;
  std::string label;
};

std::string encode(const Member& member) {
  return fmt::format("{}\n{}\n{}\n{}", member.size, member.backend, member.host, member.label);
}

Member decode_member(std::string_view text) {
  Member member;
  for (std::string* field : {&member.size, &member.backend, &member.host, &member.label}) {
    const auto end = text.find('\n');
    *field = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return member;
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

std::vector<std::string> known_names() {
  std::vector<std::string> names{"auto", std::string(kHierarchical)};
  for (const auto& choice : kChoices) names.emplace_back(choice.name);
  return names;
}

base::Status validate(const JoinOptions& options) {
  if (options.size < 1) {
    return base::input_error(fmt::format("a group of {} ranks; expected at least one", options.size));
  }
  if (options.rank < 0 || options.rank >= options.size) {
    return base::input_error(
        fmt::format("rank {} in a group of {}; expected 0 to {}", options.rank, options.size, options.size - 1));
  }
  if (options.name.empty())
    return base::input_error("a group without a name; expected one that the store has not seen");
  const auto names = known_names();
  if (std::ranges::find(names, options.backend) == names.end()) {
    return base::input_error(fmt::format("unknown backend `{}`{}; expected one of {}", options.backend,
                                         base::did_you_mean(options.backend, names), base::join_words(names)));
  }
  return {};
}

/// Announces this rank and learns about the others.
base::Result<std::vector<Member>> meet(const JoinOptions& options, Store& store, const base::Deadline& deadline) {
  const auto key = [&](int rank) { return fmt::format("{}/member/{}", options.name, rank); };
  YOKE_TRY(const std::int64_t times, store.add(key(options.rank) + "/times", 1, deadline));
  if (times != 1) {
    return base::input_error(
        fmt::format("rank {} of group `{}` joins for the {}. time; a name is good for one group "
                    "in the life of a store",
                    options.rank, options.name, times));
  }
  const Member self{.size = std::to_string(options.size),
                    .backend = options.backend,
                    .host = options.host.empty() ? host_identity() : options.host,
                    .label = fmt::format("{} pid {}", host_name(), ::getpid())};
  YOKE_CHECK(store.set(key(options.rank), encode(self), deadline));
  std::vector<Member> members;
  std::vector<std::string> missing;
  base::Deadline patience = deadline;
  for (int rank = 0; rank < options.size; ++rank) {
    const auto text = store.get(key(rank), patience);
    if (!text.ok()) {
      missing.push_back(fmt::format("rank {}", rank));
      patience = base::Deadline::at(base::Instant{});  // the others only need to be looked up, not waited for
      continue;
    }
    members.push_back(decode_member(*text));
    const Member& member = members.back();
    if (member.size != self.size || member.backend != self.backend) {
      return base::input_error(fmt::format(
          "rank {} ({}) joins group `{}` as one of {} on {}, but rank {} ({}) as one of {} on {}; expected the same "
          "on all ranks",
          rank, member.label, options.name, member.size, member.backend, options.rank, self.label, self.size,
          self.backend));
    }
  }
  if (!missing.empty()) {
    return base::peer_error(fmt::format("{} of {} did not join group `{}` in time; look at their logs",
                                        base::join_words(missing), options.size, options.name));
  }
  return members;
}

std::string choose(const std::vector<Member>& members, const std::string& wanted) {
  if (wanted != "auto") return wanted;
  std::set<std::string> hosts;
  for (const auto& member : members) hosts.insert(member.host);
  if (hosts.size() == 1) return "shm";
  return hosts.size() == members.size() ? "gloo" : std::string(kHierarchical);
}

base::Result<std::unique_ptr<Backend>> make_backend(const JoinOptions& options, const std::vector<Member>& members,
                                                    Store& store, const base::Deadline& deadline,
                                                    const base::Clock& clock) {
  const BackendOptions own{.name = options.name,
                           .rank = options.rank,
                           .size = options.size,
                           .store = &store,
                           .interface = options.interface,
                           .clock = &clock};
  const auto make = [&](const std::string& chosen) -> base::Result<std::unique_ptr<Backend>> {
    if (chosen == kHierarchical) {
      std::vector<std::string> hosts;
      for (const auto& member : members) hosts.push_back(member.host);
      return make_hierarchical_backend(own, hosts, deadline);
    }
    return std::ranges::find(kChoices, chosen, &Choice::name)->make(own, deadline);
  };
  if (options.backend != kNccl) return make(choose(members, options.backend));
  // NCCL moves the memory of GPUs alone; what ranks tell each other besides is in that of their hosts.
  YOKE_TRY(auto device, make(std::string(kNccl)));
  YOKE_TRY(auto host, make(choose(members, "auto")));
  return make_backend_by_place(std::move(host), std::move(device));
}

/// Nobody goes ahead, or leaves again, before everyone has its backend; one that could not make it says why.
base::Status await_others(const JoinOptions& options, const base::Status& made, Store& store,
                          const base::Deadline& deadline) {
  const std::string log = options.name + "/made";
  YOKE_CHECK(
      store.append(log, made.ok() ? "" : fmt::format("rank {}: {}", options.rank, made.error().message), deadline));
  YOKE_CHECK(made);
  for (std::size_t heard = 0; heard < static_cast<std::size_t>(options.size);) {
    YOKE_TRY(const auto entries, store.read(log, heard, deadline));
    if (entries.empty()) {
      return base::peer_error(
          fmt::format("only {} of {} ranks have connected in group `{}` in time; look at the logs of "
                      "the others",
                      heard, options.size, options.name));
    }
    for (const auto& entry : entries) {
      if (!entry.empty()) return base::peer_error(entry);
    }
    heard += entries.size();
  }
  return {};
}

/// How ranks of the group of `options` make a smaller one. `meeting` is where they find each other.
Group::Regroup regroup_of(const JoinOptions& options, std::shared_ptr<Store> meeting, const base::Clock& clock) {
  return [options, meeting = std::move(meeting), &clock](const std::string& name, const std::vector<int>& ranks,
                                                         const base::Deadline& deadline) {
    JoinOptions part = options;
    part.name = options.name + "/" + name;
    part.rank = static_cast<int>(std::ranges::find(ranks, options.rank) - ranks.begin());
    part.size = static_cast<int>(ranks.size());
    const auto serves = std::ranges::find(ranks, options.store_rank);
    part.store_rank = serves == ranks.end() ? kElsewhere : static_cast<int>(serves - ranks.begin());
    // MPI's backend is for all processes of a job at once.
    if (part.size < options.size && part.backend == "mpi") part.backend = "auto";
    return join(part, *meeting, deadline, clock);
  };
}

}  // namespace

std::string host_identity() {
  // Containers share a kernel, and with it a boot id, but not always /dev/shm.
  const auto boot = base::read_file("/proc/sys/kernel/random/boot_id", 4096);
  struct stat shm {};
  const bool has_shm = ::stat("/dev/shm", &shm) == 0;
  return fmt::format("{} {} {}", host_name(), boot.ok() ? base::trim(*boot) : "", has_shm ? shm.st_dev : 0);
}

base::Result<std::unique_ptr<Group>> join(const JoinOptions& options, Store& store, const base::Deadline& deadline,
                                          const base::Clock& clock) {
  YOKE_CHECK(validate(options));
  YOKE_TRY(const std::vector<Member> met, meet(options, store, deadline));

  Membership members{
      .name = options.name, .rank = options.rank, .size = options.size, .labels = {}, .store_rank = options.store_rank};
  for (const auto& member : met) members.labels.push_back(member.label);
  YOKE_TRY(auto watch, store.another(deadline));
  YOKE_TRY(auto post, store.another(deadline));
  YOKE_CHECK(Monitor::leave_will(*post, members, deadline));

  auto made = make_backend(options, met, store, deadline, clock);
  YOKE_CHECK(await_others(options, made.ok() ? base::Status{} : made.error(), store, deadline));
  std::unique_ptr<Backend> backend = *std::move(made);
  if (options.link) backend = make_shaped_backend(std::move(backend), options.size, *options.link, clock);
  if (options.decorate) backend = options.decorate(std::move(backend));
  YOKE_TRY(auto meeting, store.another(deadline));
  return std::make_unique<Group>(std::move(members), std::move(backend), std::move(watch), std::move(post), clock,
                                 regroup_of(options, std::move(meeting), clock));
}

std::vector<BackendInfo> list_backends() {
  std::vector<BackendInfo> infos;
  for (const auto& choice : kChoices) infos.push_back(choice.info());
  return infos;
}

}  // namespace yoke::comm
