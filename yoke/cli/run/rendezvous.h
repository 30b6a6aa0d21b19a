// How the ranks that a foreign launcher has started come together: rank 0 serves the store, every rank tells where it
// runs, rank 0 prepares the run and tells the others, or tells them why there is none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/cli/launch/environment.h"
#include "yoke/cli/run/devices.h"
#include "yoke/comm/mpi/mpi.h"
#include "yoke/comm/store/store.h"
#include "yoke/comm/store/tcp_store.h"
#include "yoke/plan/job.h"
#include "yoke/plan/plan.h"

namespace yoke::cli {

/// What every rank has to know. Rank 0 decides, so that all have the same.
struct RunSetup {
  std::string folder;
  plan::Job job;
  std::optional<plan::Plan> plan;
  std::vector<engine::DeviceSpec> devices;
  bool resumes = false;
  double origin = 0;  // time of day that traces count from
};
std::string to_json(const RunSetup& setup);
base::Result<RunSetup> parse_setup(const std::string& json);

/// The store of one job and, on rank 0 under a foreign launcher, its server. Members in the order of their making.
struct Meeting {
  std::unique_ptr<comm::MpiSession> mpi;  // only where the address is shared by MPI, or MPI is the backend
  std::unique_ptr<comm::TcpStoreServer> server;
  std::unique_ptr<comm::Store> store;
};
/// `serve`: rank 0 is to serve the store. Input error when its port is taken; kPeer when the store does not answer.
base::Result<Meeting> meet(const RankIdentity& identity, bool serve, bool with_mpi, const base::Deadline& deadline,
                           const base::Clock& clock);

/// Every rank calls it; rank 0 gets the places of all, the others nothing.
base::Result<std::vector<RankPlace>> tell_place(comm::Store& store, const RankIdentity& identity,
                                                const RankPlace& place, const base::Deadline& deadline);

/// Rank 0: the setup, or the error that keeps it from training, for the others.
base::Status share_setup(comm::Store& store, const base::Result<RunSetup>& setup, const base::Deadline& deadline);
/// Other ranks: what rank 0 shares. Its error becomes theirs.
base::Result<RunSetup> receive_setup(comm::Store& store, const base::Deadline& deadline);

}  // namespace yoke::cli
