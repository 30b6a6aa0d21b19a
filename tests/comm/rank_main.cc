// One rank of a test, as a process: joins a group as its arguments say and plays a scenario.
//   yoke_comm_rank key=value ...     keys: see below
// Prints one line with the outcome. Exit code 0: as the scenario wants it, or the group failed and the line says how.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <map>

#include "tests/comm/scenario.h"
#include "yoke/comm/decorate/faulty.h"
#include "yoke/comm/join.h"
#include "yoke/comm/mpi/mpi.h"
#include "yoke/comm/store/tcp_store.h"

namespace {

using namespace yoke;
using namespace yoke::comm;

std::string run(std::map<std::string, std::string>& args) {
  const base::SystemClock clock;
  const auto patience = base::Deadline::in(std::chrono::seconds(20), clock);
  JoinOptions options{.name = args["name"].empty() ? "test" : args["name"],
                      .rank = std::atoi(args["rank"].c_str()),
                      .size = std::atoi(args["size"].c_str()),
                      .backend = args["backend"],
                      .host = args["host"]};
  std::unique_ptr<TcpStoreServer> server;
  std::string address = args["store"];

  // Under mpirun the ranks come from MPI, and so does the address of the store, which rank 0 serves.
  std::unique_ptr<MpiSession> mpi;
  if (options.backend == "mpi") {
    auto session = start_mpi();
    if (!session.ok()) return session.error().to_string();
    mpi = *std::move(session);
    options.rank = mpi->rank();
    options.size = mpi->size();
  }
  if (address.empty() && options.rank == 0) {
    const std::string host = args["serve"].empty() ? "127.0.0.1" : args["serve"];
    auto started = TcpStoreServer::start(host);
    if (!started.ok()) return started.error().to_string();
    server = *std::move(started);
    address = fmt::format("{}:{}", host, server->port());
    if (!mpi) std::cout << address << std::endl;
  }
  if (mpi) {
    auto shared = mpi->share(address);
    if (!shared.ok()) return shared.error().to_string();
    address = *shared;
  }
  auto connected = connect_tcp_store(address, patience, clock);
  if (!connected.ok()) return connected.error().to_string();
  std::unique_ptr<Store> store = *std::move(connected);
  if (!args["die_at"].empty() && args["victim"] == args["rank"]) {
    const Fault fault{.kind = Fault::Kind::kDie, .at_call = std::stoull(args["die_at"])};
    options.decorate = [=](std::unique_ptr<Backend> inner) { return make_faulty_backend(std::move(inner), fault); };
  }
  auto joined = join(options, *store, patience, clock);
  if (!joined.ok()) return "join: " + joined.error().to_string();
  std::unique_ptr<Group> group = *std::move(joined);
  comm::testing::Scenario scenario{.name = args["scenario"],
                                   .op = args["op"],
                                   .victim = args["victim"].empty() ? -1 : std::atoi(args["victim"].c_str()),
                                   .act = args["act"]};
  if (!args["patience_ms"].empty()) scenario.patience = std::chrono::milliseconds(std::stoi(args["patience_ms"]));
  std::string outcome = comm::testing::play(scenario, *group, clock);
  group.reset();
  // The others may still need the store; one that is stopped on purpose would for ever.
  store.reset();
  if (server) server->drain(base::Deadline::in(std::chrono::seconds(3), clock));
  return outcome;
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> args;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto equals = arg.find('=');
    if (equals == std::string::npos) {
      std::cerr << "yoke_comm_rank: expected key=value, found " << arg << "\n";
      return 2;
    }
    args[arg.substr(0, equals)] = arg.substr(equals + 1);
  }
  const std::string outcome = run(args);
  std::cout << (outcome.empty() ? "ok" : outcome) << std::endl;
  return outcome.empty() || outcome.starts_with("failed after") ? 0 : 1;
}
