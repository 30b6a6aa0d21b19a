#include "yoke/cli/launch/environment.h"

#include <fmt/format.h>

#include <cstdlib>
#include <limits>
#include <vector>

#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cli/launch/machine.h"
#include "yoke/comm/store/socket.h"

namespace yoke::cli {
namespace {

using base::Result;
using base::Status;

base::Error variable_error(const std::string& name, std::string message) {
  return base::input_error(std::move(message), {.field = name});
}

Result<std::optional<std::int64_t>> find_number(const Environment& environment, const std::string& name,
                                                std::int64_t least, std::int64_t most) {
  const auto text = environment(name);
  if (!text) return std::optional<std::int64_t>();
  const auto number = base::parse_integer(*text);
  if (!number.ok() || *number < least || *number > most) {
    return variable_error(name, fmt::format("found {} in the environment, expected a whole number from {} to {}",
                                            base::quote(*text), least, most));
  }
  return std::optional(*number);
}

constexpr std::int64_t kMostRanks = 1'000'000;

/// The names under which one launcher tells rank, size and so on.
struct Names {
  Launcher launcher;
  std::string rank;
  std::vector<std::string> size;  // the first that is set
  std::string local_rank;
  std::string local_size;
};

const Names kYokeNames{Launcher::kYoke, "YOKE_RANK", {"YOKE_SIZE"}, "YOKE_LOCAL_RANK", "YOKE_LOCAL_SIZE"};
const Names kTorchrunNames{Launcher::kTorchrun, "RANK", {"WORLD_SIZE"}, "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
const Names kMpirunNames{Launcher::kMpirun,
                         "OMPI_COMM_WORLD_RANK",
                         {"OMPI_COMM_WORLD_SIZE"},
                         "OMPI_COMM_WORLD_LOCAL_RANK",
                         "OMPI_COMM_WORLD_LOCAL_SIZE"};
const Names kSrunNames{
    Launcher::kSrun, "SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, "SLURM_LOCALID", "YOKE_LOCAL_SIZE"};

Result<RankIdentity> read_names(const Environment& environment, const Names& names) {
  RankIdentity identity{.launcher = names.launcher};
  std::string size_name = names.size.back();
  for (const auto& name : names.size) {
    if (environment(name)) {
      size_name = name;
      break;
    }
  }
  YOKE_TRY(const auto size, find_number(environment, size_name, 1, kMostRanks));
  if (!size) {
    return variable_error(size_name, fmt::format("found {} without it, expected the number of ranks as {} sets it",
                                                 names.rank, to_string(names.launcher)));
  }
  YOKE_TRY(const auto rank, find_number(environment, names.rank, 0, kMostRanks));
  if (*rank >= *size) {
    return variable_error(names.rank,
                          fmt::format("found rank {} of {} {}, expected 0 to {}", *rank, size_name, *size, *size - 1));
  }
  identity.rank = static_cast<int>(*rank);
  identity.size = static_cast<int>(*size);
  YOKE_TRY(const auto local_size, find_number(environment, names.local_size, 1, kMostRanks));
  if (local_size) {
    if (*local_size > *size) {
      return variable_error(names.local_size, fmt::format("found {} ranks on this host, expected at most {} {}",
                                                          *local_size, size_name, *size));
    }
    identity.local_size = static_cast<int>(*local_size);
  }
  YOKE_TRY(const auto local_rank, find_number(environment, names.local_rank, 0, kMostRanks));
  if (local_rank) {
    if (*local_rank >= local_size.value_or(*size)) {
      return variable_error(names.local_rank,
                            fmt::format("found {}, expected less than the {} ranks of {}", *local_rank,
                                        local_size.value_or(*size), local_size ? "this host" : "the job"));
    }
    identity.local_rank = static_cast<int>(*local_rank);
  }
  return identity;
}

/// MASTER_ADDR and MASTER_PORT: both, or none.
Result<std::optional<std::string>> master(const Environment& environment) {
  const auto host = environment("MASTER_ADDR");
  YOKE_TRY(auto port, find_number(environment, "MASTER_PORT", 1, 65535));
  if (!host && !port) return std::optional<std::string>();
  if (!host) return variable_error("MASTER_ADDR", "found MASTER_PORT without it, expected the host of rank 0");
  if (!port) return variable_error("MASTER_PORT", "found MASTER_ADDR without it, expected a free port of that host");
  // torchrun's own store holds the port then; ours takes the next.
  if (environment("TORCHELASTIC_USE_AGENT_STORE").value_or("False") == "True") port = *port == 65535 ? 1024 : *port + 1;
  return std::optional(address_of(*host, static_cast<int>(*port)));
}

/// Variables that say who a rank is, twice and not the same: all ranks might take themselves for one.
Status check_agreement(const RankIdentity& identity, const Environment& environment, const Names& other) {
  if (!environment(other.rank)) return {};
  YOKE_TRY(const RankIdentity theirs, read_names(environment, other));
  if (theirs.rank == identity.rank && theirs.size == identity.size) return {};
  return variable_error(
      "RANK", fmt::format("found rank {} of {} by RANK and WORLD_SIZE, and rank {} of {} by {}; unset RANK and "
                          "WORLD_SIZE, or start with torchrun",
                          identity.rank, identity.size, theirs.rank, theirs.size, other.rank));
}

/// The same on every rank, and another for other jobs and steps of the same hosts.
Result<std::int64_t> slurm_port(const Environment& environment) {
  YOKE_TRY(const auto job, find_number(environment, "SLURM_JOB_ID", 0, std::numeric_limits<std::int64_t>::max() / 64));
  if (!job) {
    return variable_error("SLURM_JOB_ID",
                          "found SLURM_PROCID without it, expected the job's number; or set MASTER_ADDR, MASTER_PORT");
  }
  YOKE_TRY(const auto step, find_number(environment, "SLURM_STEP_ID", 0, std::numeric_limits<std::uint32_t>::max()));
  constexpr std::int64_t kFirst = 20000;  // below the ports that the kernel hands out
  constexpr std::int64_t kCount = 12000;
  return kFirst + (*job * 16 + step.value_or(0)) % kCount;
}

}  // namespace

std::optional<std::string> process_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::string_view to_string(Launcher launcher) {
  switch (launcher) {
    case Launcher::kYoke:
      return "yoke";
    case Launcher::kTorchrun:
      return "torchrun";
    case Launcher::kMpirun:
      return "mpirun";
    case Launcher::kSrun:
      return "srun";
  }
  return "yoke";
}

Result<RankIdentity> identify_rank(const Environment& environment) {
  if (environment(kYokeNames.rank)) {
    YOKE_TRY(RankIdentity identity, read_names(environment, kYokeNames));
    const auto store = environment("YOKE_STORE");
    if (!store) return variable_error("YOKE_STORE", "found YOKE_RANK without it, expected host:port of the store");
    if (const auto address = comm::parse_address(*store); !address.ok() || address->port == 0) {
      return variable_error("YOKE_STORE",
                            fmt::format("found {}, expected host:port or [v6 address]:port", base::quote(*store)));
    }
    identity.store = *store;
    return identity;
  }
  YOKE_TRY(const auto store, master(environment));
  if (environment(kTorchrunNames.rank)) {
    YOKE_TRY(RankIdentity identity, read_names(environment, kTorchrunNames));
    // torchrun may itself run under mpirun or srun; without it RANK was set by hand and must fit.
    if (!environment("TORCHELASTIC_RUN_ID")) {
      YOKE_CHECK(check_agreement(identity, environment, kMpirunNames));
      if (environment("SLURM_STEP_ID")) YOKE_CHECK(check_agreement(identity, environment, kSrunNames));
    }
    if (!store) {
      return variable_error("MASTER_ADDR",
                            "found RANK without it, expected the host of rank 0; and MASTER_PORT, a free port there");
    }
    identity.store = *store;
    return identity;
  }
  if (environment(kMpirunNames.rank)) {
    YOKE_TRY(RankIdentity identity, read_names(environment, kMpirunNames));
    identity.store = store.value_or("");
    return identity;
  }
  if (environment(kSrunNames.rank)) {
    YOKE_TRY(RankIdentity identity, read_names(environment, kSrunNames));
    if (store) {
      identity.store = *store;
      return identity;
    }
    const auto steps = environment("SLURM_STEP_NODELIST");
    const std::string name = steps ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
    const auto list = environment(name);
    if (!list) {
      return variable_error(name,
                            "found SLURM_PROCID without it, expected the hosts of the job; or set MASTER_ADDR and "
                            "MASTER_PORT");
    }
    const auto host = first_slurm_host(*list);
    if (!host.ok()) return variable_error(name, host.error().message);
    YOKE_TRY(const std::int64_t port, slurm_port(environment));
    identity.store = address_of(*host, static_cast<int>(port));
    return identity;
  }
  return variable_error("RANK",
                        "found no variables of a launcher (YOKE_RANK, RANK, OMPI_COMM_WORLD_RANK or SLURM_PROCID), "
                        "expected to be started by torchrun, mpirun or srun; `yoke run JOB` starts all ranks of this "
                        "machine itself");
}

Result<std::string> first_slurm_host(std::string_view list) {
  const auto bad = [&] {
    return base::input_error(
        fmt::format("found {}, expected a Slurm node list such as gpu[01-04,7],login", base::quote(list)));
  };
  const auto end = list.find_first_of(",[");
  std::string host(list.substr(0, end));
  if (end != std::string_view::npos && list[end] == '[') {
    const auto close = list.find(']', end);
    if (close == std::string_view::npos) return bad();
    const auto inside = list.substr(end + 1, close - end - 1);
    host += inside.substr(0, inside.find_first_of(",-"));
    if (inside.empty() || inside.front() == ',' || inside.front() == '-') return bad();
    // `rack[1-2]n[01-08]` has more after the first brackets.
    const auto rest = list.substr(close + 1);
    if (!rest.empty() && rest.front() != ',') {
      YOKE_TRY(const std::string more, first_slurm_host(rest));
      host += more;
    }
  }
  if (!base::is_plain_name(host)) return bad();
  return host;
}

Result<std::optional<ManagedRank>> managed_rank(const Environment& environment) {
  YOKE_TRY(const auto fd, find_number(environment, "YOKE_REPORT_FD", 0, 1 << 20));
  if (!fd) return std::optional<ManagedRank>();
  YOKE_TRY(const auto origin,
           find_number(environment, "YOKE_TRACE_ORIGIN", 0, std::numeric_limits<std::int64_t>::max()));
  return std::optional(ManagedRank{.report_fd = static_cast<int>(*fd),
                                   .plan = environment("YOKE_PLAN").value_or(""),
                                   .origin_ns = origin.value_or(0)});
}

}  // namespace yoke::cli
