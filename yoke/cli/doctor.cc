// `yoke doctor`: one line per check of this machine, each with what to do when it fails.
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ostream>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cli/backend_check.h"
#include "yoke/cli/check.h"
#include "yoke/cli/command.h"
#include "yoke/cli/launch/machine.h"
#include "yoke/cli/table.h"
#include "yoke/cli/torch_check.h"
#include "yoke/comm/store/socket.h"

namespace yoke::cli {
namespace {

struct DoctorOptions {
  std::vector<std::string> hosts;
  std::string shared_folder;
  bool as_mpi_rank = false;
};

std::string_view to_string(Health health) {
  switch (health) {
    case Health::kOk:
      return "ok";
    case Health::kWarning:
      return "warning";
    case Health::kFailed:
      return "failed";
  }
  return "failed";
}

Check check_processors() {
  const int usable = usable_cores();
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  Check check{.name = "processors", .found = fmt::format("{} usable of {}", usable, online)};
  if (usable < 2) {
    check.health = Health::kWarning;
    check.advice = "with one core, data loading and training wait for each other";
  }
  return check;
}

/// A number in a cgroup file; absent when there is no such limit.
std::optional<std::int64_t> read_limit(const char* path) {
  const auto text = base::read_file(path, 4096);
  if (!text.ok()) return std::nullopt;
  const auto value = base::parse_integer(*text);
  return value.ok() ? std::optional(*value) : std::nullopt;
}

Check check_memory() {
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  std::int64_t total = ::sysconf(_SC_PHYS_PAGES) * page;
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    if (const auto limit = read_limit(path)) total = std::min(total, *limit);
  }
  const std::int64_t available = ::sysconf(_SC_AVPHYS_PAGES) * page;
  return {.name = "memory",
          .found = fmt::format("{} in all, {} free", base::format(base::Bytes{total}),
                               base::format(base::Bytes{available}))};
}

Check check_shared_memory() {
  struct statvfs info {};
  Check check{.name = "/dev/shm"};
  if (::statvfs("/dev/shm", &info) != 0) {
    check.health = Health::kFailed;
    check.found = std::strerror(errno);
    check.advice = "mount a tmpfs at /dev/shm: ranks of one host talk through it";
    return check;
  }
  const auto free = static_cast<std::int64_t>(info.f_bavail * info.f_frsize);
  check.found = base::format(base::Bytes{free}) + " free";
  if (free < 256'000'000) {
    check.health = Health::kWarning;
    check.advice = "give it 256 MB or more (containers: --shm-size)";
  }
  return check;
}

Check check_torch() {
  const auto torch = describe_torch();
  if (!torch.ok()) {
    return {.name = "libtorch",
            .health = Health::kFailed,
            .found = torch.error().message,
            .advice = "run ./setup.sh and build again"};
  }
  if (!torch->has_value()) {
    return {.name = "libtorch",
            .health = Health::kWarning,
            .found = "not in this build",
            .advice = "planning works; to train, build the release preset"};
  }
  return {.name = "libtorch", .found = **torch};
}

Check check_ports() {
  Check check{.name = "ports"};
  const auto listener = comm::listen_on("127.0.0.1", 0);
  if (!listener.ok()) {
    check.health = Health::kFailed;
    check.found = listener.error().message;
    check.advice = "look at firewall and container settings";
    return check;
  }
  check.found = fmt::format("free ports can be had (tried {})", comm::port_of(*listener));
  return check;
}

Check check_clock() {
  timex state{};
  const int status = ::adjtimex(&state);
  Check check{.name = "clock"};
  if (status == -1 || status == TIME_ERROR) {
    check.health = Health::kWarning;
    check.found = "the system clock is not synchronised";
    check.advice = "run chrony or systemd-timesyncd, or traces of several hosts will not line up";
  } else {
    check.found = fmt::format("synchronised, estimated error {}",
                              base::format_seconds(static_cast<double>(state.esterror) * 1e-6));
  }
  return check;
}

/// Resolves a name, waiting five seconds at most: getaddrinfo itself may block for half a minute.
Check check_host(const std::string& host) {
  Check check{.name = "host " + host};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  gaicb request{};
  request.ar_name = host.c_str();
  request.ar_request = &hints;
  gaicb* requests[] = {&request};
  int status = ::getaddrinfo_a(GAI_NOWAIT, requests, 1, nullptr);
  if (status == 0) {
    const timespec patience{.tv_sec = 5, .tv_nsec = 0};
    ::gai_suspend(requests, 1, &patience);
    status = ::gai_error(&request);
    if (status == EAI_INPROGRESS) {
      // A resolver thread still writes to `request`: it may not go out of scope until that thread is done with it.
      while (::gai_cancel(&request) == EAI_NOTCANCELED && ::gai_error(&request) == EAI_INPROGRESS) {
        ::gai_suspend(requests, 1, &patience);
      }
      status = EAI_AGAIN;
    }
  }
  if (status != 0) {
    check.health = Health::kFailed;
    check.found = fmt::format("does not resolve: {}", ::gai_strerror(status));
    check.advice = "check the spelling, /etc/hosts and the name server";
    return check;
  }
  char numeric[NI_MAXHOST] = "";
  ::getnameinfo(request.ar_result->ai_addr, request.ar_result->ai_addrlen, numeric, sizeof(numeric), nullptr, 0,
                NI_NUMERICHOST);
  ::freeaddrinfo(request.ar_result);
  check.found = fmt::format("resolves to {}", numeric);
  return check;
}

Check check_shared_folder(const std::string& folder) {
  Check check{.name = "folder " + folder};
  const std::string probe = base::join_path(folder, fmt::format(".yoke-doctor-{}", ::getpid()));
  const auto written = base::publish_file(probe, "probe");
  if (!written.ok()) {
    check.health = Health::kFailed;
    check.found = written.error().message;
    check.advice = "make the folder and give yourself the right to write there";
    return check;
  }
  const auto read = base::read_file(probe);
  ::unlink(probe.c_str());
  if (!read.ok() || *read != "probe") {
    check.health = Health::kFailed;
    check.found = "what was written does not read back";
    check.advice = "look at the file system";
    return check;
  }
  struct statvfs info {};
  ::statvfs(folder.c_str(), &info);
  check.found = fmt::format("can be written, {} free",
                            base::format(base::Bytes{static_cast<std::int64_t>(info.f_bavail * info.f_frsize)}));
  return check;
}

base::Status run_doctor(const DoctorOptions& options, Context& context) {
  if (options.as_mpi_rank) {
    YOKE_TRY(const std::string result, try_as_mpi_rank(context.clock));
    context.out << result;
    return {};
  }
  std::vector<Check> checks{{.name = "yoke", .found = YOKE_VERSION ", built with " YOKE_COMPILER},
                            check_processors(),
                            check_memory(),
                            check_shared_memory(),
                            check_torch(),
                            check_ports(),
                            check_clock()};
  for (auto& check : check_backends(context.program, context.clock)) checks.push_back(std::move(check));
  for (const auto& host : options.hosts) checks.push_back(check_host(host));
  if (!options.shared_folder.empty()) checks.push_back(check_shared_folder(options.shared_folder));

  std::vector<std::string> failed;
  for (const auto& check : checks) {
    if (check.health == Health::kFailed) failed.push_back(check.name);
  }
  if (context.json) {
    Json list = Json::array();
    for (const auto& check : checks) {
      list.push_back({{"check", check.name},
                      {"health", to_string(check.health)},
                      {"found", check.found},
                      {"advice", check.advice}});
    }
    print_json(context, {{"healthy", failed.empty()}, {"checks", std::move(list)}});
    context.reported = true;
  } else {
    Table table({{"check"}, {"health"}, {"found"}});
    for (const auto& check : checks) {
      const std::string advice = check.advice.empty() ? "" : "; " + check.advice;
      table.add({check.name, std::string(to_string(check.health)), check.found + advice});
    }
    context.out << table.to_string();
  }
  if (!failed.empty())
    return base::peer_error(fmt::format("{} failed; see the advice above", base::join_words(failed)));
  return {};
}

}  // namespace

void add_doctor(CLI::App& app, Action& chosen) {
  add_command<DoctorOptions>(
      app, chosen, "doctor", "check this machine: one line per check, with what to do",
      [](Arguments& command, DoctorOptions& options) {
        command.option("--hosts", options.hosts, "hosts that must resolve, e.g. a,b");
        command.hidden_flag("--as-mpi-rank", options.as_mpi_rank);
        command.option("--shared", options.shared_folder, "folder that every node must be able to write");
      },
      run_doctor);
}

}  // namespace yoke::cli
