#include "yoke/cli/backend_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <thread>

#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/comm/join.h"
#include "yoke/comm/mpi/mpi.h"
#include "yoke/comm/store/socket.h"
#include "yoke/comm/store/tcp_store.h"

namespace yoke::cli {
namespace {

using comm::Descriptor;

constexpr base::Duration kPatience = std::chrono::seconds(10);
constexpr int kRanks = 2;
constexpr std::string_view kDone = "ok ";

/// Sums a megabyte a few times and checks it. What to print: `ok 1 MB summed in 0.4 ms`.
base::Result<std::string> try_group(comm::Group& group, const base::Clock& clock) {
  constexpr std::size_t kCount = 250'000;
  std::vector<double> seconds;
  for (int i = 0; i < 7; ++i) {
    std::vector<float> data(kCount, static_cast<float>(group.rank() + 1));
    const auto begin = clock.now();
    YOKE_CHECK(group.run(comm::all_reduce(std::span(data)), base::Deadline::in(kPatience, clock)));
    seconds.push_back(base::to_seconds(clock.now() - begin));
    if (std::ranges::any_of(data, [](float value) { return value != 3.0F; })) {
      return base::peer_error("two ranks add 1 and 2 and do not get 3");
    }
  }
  YOKE_CHECK(group.close());
  std::ranges::sort(seconds);
  return fmt::format("{}1 MB summed in {} by {} ranks", kDone, base::format_seconds(seconds[seconds.size() / 2]),
                     kRanks);
}

base::Result<std::string> try_rank(const std::string& backend, int rank, const std::string& store_address,
                                   const base::Clock& clock) {
  const auto deadline = base::Deadline::in(kPatience, clock);
  YOKE_TRY(const auto store, comm::connect_tcp_store(store_address, deadline, clock));
  YOKE_TRY(const auto group,
           comm::join({.name = "doctor", .rank = rank, .size = kRanks, .backend = backend}, *store, deadline, clock));
  return try_group(*group, clock);
}

/// What comes out of a descriptor until its other end is closed or the time is over.
std::string read_all(const Descriptor& from, const base::Deadline& deadline, const base::Clock& clock) {
  std::string text;
  for (;;) {
    pollfd ready{.fd = from.get(), .events = POLLIN, .revents = 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left(clock)).count();
    if (::poll(&ready, 1, static_cast<int>(left)) <= 0) return text;
    char chunk[4096];
    const auto got = ::read(from.get(), chunk, sizeof(chunk));
    if (got <= 0) return text;
    text.append(chunk, static_cast<std::size_t>(got));
  }
}

void write_all(const Descriptor& to, std::string_view text) {
  while (!text.empty()) {
    const auto wrote = ::write(to.get(), text.data(), text.size());
    if (wrote <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

std::optional<std::array<Descriptor, 2>> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  return std::array{Descriptor(ends[0]), Descriptor(ends[1])};
}

/// A process of ours that prints into a pipe. Killed, should it still run at the end.
class Child {
 public:
  /// `body` runs in the child, which then ends; it may write to the descriptor.
  explicit Child(const std::function<void(const Descriptor& out)>& body) {
    auto ends = make_pipe();
    if (!ends) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      body((*ends)[1]);
      ::_exit(0);
    }
    out_ = std::move((*ends)[0]);
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  std::string output(const base::Deadline& deadline, const base::Clock& clock) const {
    return out_.valid() ? read_all(out_, deadline, clock) : "no process could be started";
  }

 private:
  pid_t pid_ = -1;
  Descriptor out_;
};

/// Two processes, which learn the address of the store once they exist: they are made before this process has a
/// second thread.
std::string try_in_processes(const std::string& backend, const base::Clock& clock) {
  auto addresses = std::array{make_pipe(), make_pipe()};
  if (!addresses[0] || !addresses[1]) return "no pipe could be made";
  const auto body = [&](int rank) {
    return [&, rank](const Descriptor& out) {
      for (auto& pipe : addresses) (*pipe)[1].reset();  // inherited: while it is open no reader sees the end
      const std::string address =
          read_all((*addresses[static_cast<std::size_t>(rank)])[0], base::Deadline::in(kPatience, clock), clock);
      const auto result = try_rank(backend, rank, address, clock);
      write_all(out, result.ok() ? *result : result.error().message);
    };
  };
  const Child first(body(0));
  const Child second(body(1));
  const auto server = comm::TcpStoreServer::start("127.0.0.1");
  if (!server.ok()) return server.error().message;
  for (auto& pipe : addresses) {
    write_all((*pipe)[1], fmt::format("127.0.0.1:{}", (*server)->port()));
    (*pipe)[1].reset();
  }
  const auto deadline = base::Deadline::in(2 * kPatience, clock);
  std::string result = first.output(deadline, clock);
  const std::string other = second.output(deadline, clock);
  return result.starts_with(kDone) ? other : result;
}

std::string try_in_threads(const base::Clock& clock) {
  const auto store = comm::make_memory_store();
  std::array<std::string, kRanks> results;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        const auto deadline = base::Deadline::in(kPatience, clock);
        const auto own = store->another(deadline);
        const auto group =
            comm::join({.name = "doctor", .rank = rank, .size = kRanks, .backend = "local"}, **own, deadline, clock);
        const auto result = group.ok() ? try_group(**group, clock) : base::Result<std::string>(group.error());
        results[static_cast<std::size_t>(rank)] = result.ok() ? *result : result.error().message;
      });
    }
  }
  return results[0].starts_with(kDone) ? results[1] : results[0];
}

std::string try_under_mpirun(const std::string& program, const base::Clock& clock) {
  const Child mpirun([&](const Descriptor& out) {
    ::dup2(out.get(), STDOUT_FILENO);
    ::dup2(out.get(), STDERR_FILENO);
    // mpirun asks for these before it starts anything as root, and refuses more ranks than cores.
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    ::execlp("mpirun", "mpirun", "--oversubscribe", "-n", "2", program.c_str(), "doctor", "--as-mpi-rank", nullptr);
    write_all(out, "mpirun does not start; on Debian it is in openmpi-bin");
  });
  const std::string output = mpirun.output(base::Deadline::in(2 * kPatience, clock), clock);
  // MPI itself may have something to say about the machine before or after.
  const auto line = output.starts_with(kDone) ? 0 : output.find(fmt::format("\n{}", kDone));
  if (line == std::string::npos) return std::string(base::trim(output));
  return std::string(base::trim(output.substr(line, output.find('\n', line + 1) - line)));
}

}  // namespace

base::Result<std::string> try_as_mpi_rank(const base::Clock& clock) {
  YOKE_TRY(const auto session, comm::start_mpi());
  if (session->size() != kRanks) {
    return base::input_error(fmt::format("{} ranks; expected {}: start it by `yoke doctor`", session->size(), kRanks));
  }
  std::unique_ptr<comm::TcpStoreServer> server;
  std::string address;
  if (session->rank() == 0) {
    YOKE_TRY(server, comm::TcpStoreServer::start("127.0.0.1"));
    address = fmt::format("127.0.0.1:{}", server->port());
  }
  YOKE_TRY(address, session->share(address));
  YOKE_TRY(const std::string result, try_rank("mpi", session->rank(), address, clock));
  if (server) server->drain(base::Deadline::in(kPatience, clock));
  return session->rank() == 0 ? result : "";
}

std::vector<Check> check_backends(const std::string& program, const base::Clock& clock) {
  std::vector<Check> checks;
  for (const auto& info : comm::list_backends()) {
    Check check{.name = "backend " + info.name, .found = info.detail};
    if (!info.available || (info.name == "mpi" && program.empty())) {
      checks.push_back(std::move(check));
      continue;
    }
    const std::string result = info.name == "local" ? try_in_threads(clock)
                               : info.name == "mpi" ? try_under_mpirun(program, clock)
                                                    : try_in_processes(info.name, clock);
    if (result.starts_with(kDone)) {
      check.found += "; " + result.substr(kDone.size());
    } else {
      check.health = Health::kFailed;
      check.found += "; " + (result.empty() ? "two ranks did not answer in time" : result);
      check.advice = fmt::format("runs on this machine cannot use `{}`", info.name);
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace yoke::cli
