// All-reduce of f32 over every backend of this machine and over PyTorch's gloo, side by side in one run:
//   bench_allreduce [--rounds 3] [--ranks 2,4] [--python PATH]
// Prints one JSON object. Contestants take turns, `rounds` times each; a figure is the median over all of its
// repetitions of the slowest rank's time. PyTorch runs bench/comm/allreduce_peer.py, MPI runs under mpirun; one that is
// not there is left out, and named.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <vector>

#include "yoke/base/json.h"
#include "yoke/comm/join.h"
#include "yoke/comm/mpi/mpi.h"
#include "yoke/comm/store/tcp_store.h"

namespace {

using namespace yoke;
using namespace yoke::comm;

constexpr std::size_t kSizes[] = {4'096, 65'536, 1'048'576, 26'214'400, 104'857'600};  // bytes

/// Enough repetitions for a median, and a second or so for each size.
int repetitions(std::size_t bytes) {
  return static_cast<int>(std::clamp<std::size_t>(200'000'000 / bytes, 5, 300));
}

/// Seconds of each repetition for one size, as `bytes seconds seconds ...`. Shared with allreduce_peer.py.
void measure(Group& group, const base::Clock& clock) {
  const auto deadline = [&] { return base::Deadline::in(std::chrono::seconds(60), clock); };
  const auto check = [](const base::Status& status) {
    if (status.ok()) return;
    std::cerr << status.error().to_string() << "\n";
    std::exit(4);
  };
  for (const std::size_t bytes : kSizes) {
    std::vector<float> data(bytes / sizeof(float), 1.0F);
    std::vector<float> seconds;
    for (int i = -3; i < repetitions(bytes); ++i) {
      check(group.run(barrier(), deadline()));
      const auto begin = clock.now();
      check(group.run(all_reduce(std::span(data)), deadline()));
      const auto took = static_cast<float>(base::to_seconds(clock.now() - begin));
      if (i >= 0) seconds.push_back(took);
      std::fill(data.begin(), data.begin() + std::min<std::ptrdiff_t>(16, std::ssize(data)), 1.0F);
    }
    check(group.run(all_reduce(std::span(seconds), Reduction::kMax), deadline()));
    if (group.rank() != 0) continue;
    std::cout << bytes;
    for (const float took : seconds) std::cout << ' ' << took;
    std::cout << std::endl;
  }
  check(group.close());
}

int run_rank(const std::string& backend, int rank, int size, std::string store_address) {
  const base::SystemClock clock;
  const auto deadline = base::Deadline::in(std::chrono::seconds(60), clock);
  std::unique_ptr<MpiSession> mpi;
  std::unique_ptr<TcpStoreServer> server;
  const auto fail = [](const base::Error& error) {
    std::cerr << error.to_string() << "\n";
    return base::exit_code(error.kind);
  };
  if (backend == "mpi") {
    auto session = start_mpi();
    if (!session.ok()) return fail(session.error());
    mpi = *std::move(session);
    rank = mpi->rank();
    size = mpi->size();
    if (rank == 0) {
      auto started = TcpStoreServer::start("127.0.0.1");
      if (!started.ok()) return fail(started.error());
      server = *std::move(started);
      store_address = fmt::format("127.0.0.1:{}", server->port());
    }
    const auto shared = mpi->share(store_address);
    if (!shared.ok()) return fail(shared.error());
    store_address = *shared;
  }
  auto connected = connect_tcp_store(store_address, deadline, clock);
  if (!connected.ok()) return fail(connected.error());
  std::unique_ptr<Store> store = *std::move(connected);
  {
    const auto group = join({.name = "bench", .rank = rank, .size = size, .backend = backend}, *store, deadline, clock);
    if (!group.ok()) return fail(group.error());
    measure(**group, clock);
  }
  store.reset();
  if (server) server->drain(deadline);
  return 0;
}

/// Runs a shell command and returns what it printed; nothing if it failed.
std::optional<std::string> output_of(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string output;
  char chunk[4096];
  for (std::size_t got = 0; (got = ::fread(chunk, 1, sizeof(chunk), pipe)) > 0;) output.append(chunk, got);
  return ::pclose(pipe) == 0 ? std::optional(output) : std::nullopt;
}

struct Contestant {
  std::string name;
  std::map<std::size_t, std::vector<double>> seconds = {};  // by size
  std::string absent = {};                                  // why it could not run
};

std::string self;
std::string python = "/usr/bin/python3";  // Debian's, which has python3-torch

/// One turn of one contestant: all sizes.
void take_turn(Contestant& contestant, int ranks) {
  auto server = TcpStoreServer::start("127.0.0.1");
  const std::string store = fmt::format("127.0.0.1:{}", (*server)->port());
  std::string command;
  if (contestant.name == "mpi") {
    command = fmt::format(
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n {} {} --rank mpi 0 0 -",
        ranks, self);
  } else {
    const bool torch = contestant.name == "pytorch-gloo";
    for (int rank = 0; rank < ranks; ++rank) {
      command += torch ? fmt::format("{} {}/bench/comm/allreduce_peer.py {} {} $dir/store", python, YOKE_SOURCE_DIR,
                                     rank, ranks)
                       : fmt::format("{} --rank {} {} {} {}", self, contestant.name, rank, ranks, store);
      command += rank + 1 < ranks ? " & " : "; status=$?; wait; exit $status";
    }
    if (torch) command = "dir=$(mktemp -d); trap 'rm -rf $dir' EXIT; " + command;
  }
  const auto output = output_of(command);
  if (!output) {
    contestant.absent = "did not run: " + command;
    return;
  }
  std::istringstream lines(*output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::size_t bytes = 0;
    fields >> bytes;
    for (double seconds = 0; fields >> seconds;) contestant.seconds[bytes].push_back(seconds);
  }
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() == 5 && args[0] == "--rank")
    return run_rank(args[1], std::stoi(args[2]), std::stoi(args[3]), args[4]);
  self = argv[0];
  int rounds = 3;
  std::vector<int> rank_counts{2, 4};
  for (std::size_t i = 0; i + 1 < args.size(); i += 2) {
    if (args[i] == "--rounds") rounds = std::stoi(args[i + 1]);
    if (args[i] == "--python") python = args[i + 1];
    if (args[i] == "--ranks") {
      rank_counts.clear();
      std::istringstream list(args[i + 1]);
      for (std::string count; std::getline(list, count, ',');) rank_counts.push_back(std::stoi(count));
    }
  }

  base::Json rows = base::Json::array();
  base::Json absent = base::Json::array();
  for (const int ranks : rank_counts) {
    std::vector<Contestant> contestants{{"shm"}, {"gloo"}, {"mpi"}, {"pytorch-gloo"}};
    for (int round = 0; round < rounds; ++round) {
      for (auto& contestant : contestants) {
        if (contestant.absent.empty()) take_turn(contestant, ranks);
      }
    }
    for (const auto& contestant : contestants) {
      if (!contestant.absent.empty()) absent.push_back({{"contestant", contestant.name}, {"why", contestant.absent}});
    }
    for (const std::size_t bytes : kSizes) {
      base::Json row{{"ranks", ranks}, {"bytes", bytes}};
      std::map<std::string, double> seconds;
      for (const auto& contestant : contestants) {
        const auto found = contestant.seconds.find(bytes);
        if (found == contestant.seconds.end()) continue;
        seconds[contestant.name] = median(found->second);
        row[contestant.name + "_seconds"] = seconds[contestant.name];
      }
      for (const char* other : {"gloo", "mpi", "pytorch-gloo"}) {
        if (seconds.contains("shm") && seconds.contains(other)) {
          row[fmt::format("shm_vs_{}", other)] = seconds[other] / seconds["shm"];
        }
      }
      rows.push_back(std::move(row));
    }
  }
  std::cout << base::Json{{"benchmark", "allreduce"}, {"rounds", rounds}, {"rows", rows}, {"absent", absent}}.dump(1)
            << std::endl;
  return 0;
}
