#include "yoke/cli/run/rendezvous.h"

#include <fmt/format.h>

#include "yoke/base/document.h"
#include "yoke/base/json.h"
#include "yoke/cli/launch/machine.h"
#include "yoke/cli/launch/reports.h"
#include "yoke/comm/store/socket.h"

namespace yoke::cli {
namespace {

using base::Json;
using base::Result;
using base::Status;

constexpr const char* kSetup = "run/setup";

std::string place_key(int rank) {
  return fmt::format("run/place/{}", rank);
}

/// The variable to change when the store's port cannot be had.
std::string port_variable(const RankIdentity& identity) {
  return identity.launcher == Launcher::kYoke ? "YOKE_STORE" : "MASTER_PORT";
}

/// Rank 0 takes a free port; MPI tells the others.
Result<std::string> share_address(Meeting& meeting, const RankIdentity& identity) {
  std::string address;
  if (identity.rank == 0) {
    const bool one_host = identity.local_size == identity.size;
    const std::string host = one_host ? "127.0.0.1" : reachable_address();
    YOKE_TRY(meeting.server, comm::TcpStoreServer::start(listening_host(host)));
    address = address_of(host, meeting.server->port());
  }
  return meeting.mpi->share(address);
}

}  // namespace

std::string to_json(const RunSetup& setup) {
  Json devices = Json::array();
  for (const auto& device : setup.devices) devices.push_back(to_json(device));
  Json json{{"folder", setup.folder},
            {"job", plan::to_yaml(setup.job)},
            {"plan", setup.plan ? plan::to_json(*setup.plan) : ""},
            {"devices", std::move(devices)},
            {"resumes", setup.resumes},
            {"origin", setup.origin}};
  return json.dump();
}

Result<RunSetup> parse_setup(const std::string& json) {
  YOKE_TRY(const base::Document document, base::parse_json(json, "setup of rank 0"));
  base::Reader reader(document);
  base::View root = reader.root();
  if (auto fault = root.find("error")) {
    const base::Error error = read_error(*fault);
    if (!reader.ok()) return reader.error();
    return error;
  }
  RunSetup setup;
  setup.folder = root.field("folder").text();
  const std::string job = root.field("job").text();
  const std::string plan = root.field("plan").text();
  for (auto& device : root.field("devices").items()) setup.devices.push_back(read_device(device));
  setup.resumes = root.field("resumes").boolean();
  setup.origin = root.field("origin").number();
  if (!reader.ok()) return reader.error();
  YOKE_TRY(setup.job, plan::parse_job(job, "job of rank 0"));
  if (!plan.empty()) {
    YOKE_TRY(setup.plan, plan::parse_plan(plan, "plan of rank 0"));
  }
  return setup;
}

Result<Meeting> meet(const RankIdentity& identity, bool serve, bool with_mpi, const base::Deadline& deadline,
                     const base::Clock& clock) {
  Meeting meeting;
  std::string address = identity.store;
  if (with_mpi || address.empty()) {
    auto session = comm::start_mpi();
    if (!session.ok() && address.empty()) {
      base::Error error = session.error();
      error.message += "; without MPI, set MASTER_ADDR to the host of rank 0 and MASTER_PORT to a free port there";
      return error;
    }
    if (!session.ok()) return session.error();
    meeting.mpi = *std::move(session);
    if (meeting.mpi->size() != identity.size || meeting.mpi->rank() != identity.rank) {
      return base::input_error(
          fmt::format("MPI says rank {} of {}, the environment {} of {}; start with the mpirun of "
                      "the MPI that this program was built with",
                      meeting.mpi->rank(), meeting.mpi->size(), identity.rank, identity.size));
    }
  }
  if (address.empty()) {
    YOKE_TRY(address, share_address(meeting, identity));
  } else if (serve && identity.rank == 0) {
    YOKE_TRY(const comm::HostPort parts, comm::parse_address(address));
    auto server = comm::TcpStoreServer::start(listening_host(parts.host), parts.port);
    if (!server.ok()) return base::input_error(server.error().message, {.field = port_variable(identity)});
    meeting.server = *std::move(server);
  }
  YOKE_TRY(meeting.store, comm::connect_tcp_store(address, deadline, clock));
  return meeting;
}

Result<std::vector<RankPlace>> tell_place(comm::Store& store, const RankIdentity& identity, const RankPlace& place,
                                          const base::Deadline& deadline) {
  YOKE_CHECK(store.set(place_key(identity.rank), to_json(place).dump(), deadline));
  std::vector<RankPlace> places;
  if (identity.rank != 0) return places;
  for (int rank = 0; rank < identity.size; ++rank) {
    const auto text = store.get(place_key(rank), deadline);
    if (!text.ok()) {
      return base::peer_error(fmt::format("rank {} of {} did not come: {}", rank, identity.size, text.error().message));
    }
    YOKE_TRY(RankPlace told, parse_place(*text));
    places.push_back(std::move(told));
  }
  return places;
}

Status share_setup(comm::Store& store, const Result<RunSetup>& setup, const base::Deadline& deadline) {
  return store.set(kSetup, setup.ok() ? to_json(*setup) : Json{{"error", to_json(setup.error())}}.dump(), deadline);
}

Result<RunSetup> receive_setup(comm::Store& store, const base::Deadline& deadline) {
  YOKE_TRY(const std::string text, store.get(kSetup, deadline));
  return parse_setup(text);
}

}  // namespace yoke::cli
