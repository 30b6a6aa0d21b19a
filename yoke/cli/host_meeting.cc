#include "yoke/cli/host_meeting.h"

#include <fmt/format.h>

#include <algorithm>

#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cli/host_word.h"
#include "yoke/cli/launch/machine.h"

namespace yoke::cli {
namespace {

using base::Deadline;
using base::Result;
using base::Status;

constexpr const char* kLog = "hosts";

}  // namespace

void HostOptions::declare(Arguments& command) {
  command.option("--hosts", hosts, "all hosts, the same list on each, e.g. a,b; the first one serves the others");
  command.option("--rank", rank, "which of --hosts this is, from 0 (default: found out)");
  command.option("--port", port, "a free port of the first host");
  command.option("--timeout", timeout, "how long to wait for the other hosts");
}

Result<int> HostOptions::own_rank() const {
  if (hosts.size() < 2) {
    return option_error("--hosts", fmt::format("found {}, expected at least two", hosts.size()));
  }
  const auto count = static_cast<int>(hosts.size());
  if (rank) {
    if (*rank >= 0 && *rank < count) return *rank;
    return option_error("--rank", fmt::format("found {}, expected 0 to {}: the place in --hosts", *rank, count - 1));
  }
  std::vector<int> own;
  for (int i = 0; i < count; ++i) {
    if (is_this_machine(hosts[static_cast<std::size_t>(i)])) own.push_back(i);
  }
  if (own.size() == 1) return own.front();
  return option_error(
      "--rank", fmt::format("{} of the hosts {} are this machine; say which one it is: 0 to {}",
                            own.empty() ? "none" : std::to_string(own.size()), base::join_words(hosts), count - 1));
}

Result<HostMeeting> HostMeeting::join(const HostOptions& options, const std::string& token, const base::Clock& clock) {
  HostMeeting meeting(clock);
  YOKE_TRY(meeting.rank_, options.own_rank());
  const auto timeout = base::parse_duration(options.timeout);
  if (!timeout.ok()) return option_error("--timeout", timeout.error().message);
  if (options.port < 1 || options.port > 65535) {
    return option_error("--port", fmt::format("found {}, expected 1 to 65535", options.port));
  }
  meeting.timeout_ = *timeout;
  meeting.hosts_ = options.hosts;
  const std::string& first = options.hosts.front();
  meeting.address_ = address_of(first, options.port);
  if (meeting.rank_ == 0) {
    auto server = comm::TcpStoreServer::start(listening_host(first), static_cast<std::uint16_t>(options.port), token);
    if (!server.ok()) return option_error("--port", server.error().message);
    meeting.server_ = *std::move(server);
  }
  auto store = comm::connect_tcp_store(meeting.address_, meeting.patience(), clock, token);
  if (!store.ok()) {
    base::Error error = store.error();
    if (error.message.find("refuses the token") != std::string::npos) return option_error("--token", error.message);
    return base::peer_error(
        fmt::format("host {} is not reached within {}: {}; run the same command there, as rank 0, "
                    "and let this host through to its port {}",
                    first, base::format_seconds(base::to_seconds(*timeout)), error.message, options.port));
  }
  meeting.store_ = *std::move(store);
  const Status willed = meeting.store_->leave_will(kLog, encode({.rank = meeting.rank_, .kind = HostWord::Kind::kLost}),
                                                   meeting.patience());
  if (!willed.ok()) return meeting.lost_store(willed.error());
  return meeting;
}

std::string HostMeeting::describe(int rank) const {
  return fmt::format("{} (rank {})", hosts_.at(static_cast<std::size_t>(rank)), rank);
}

base::Error HostMeeting::lost_store(const base::Error& error) const {
  return base::peer_error(fmt::format("host {} is lost: {}", describe(0), error.message));
}

Status HostMeeting::take(const std::string& text) {
  auto word = decode_host_word(text, size());
  if (!word) {
    return base::peer_error(fmt::format(
        "a host says {}, which is nothing of this command's; is another one using the same port?", base::quote(text)));
  }
  const int rank = word->rank;
  if (word->kind == HostWord::Kind::kLost) return base::peer_error(fmt::format("host {} was lost", describe(rank)));
  if (word->kind == HostWord::Kind::kFailed) {
    failed_.emplace(rank, base::printable(word->text, word->text.size()));
    return {};
  }
  if (said_[word->phase].emplace(rank, std::move(word->text)).second) return {};
  return base::input_error(fmt::format("two hosts say that they are {}; give each another place", describe(rank)),
                           {.field = "--rank"});
}

Result<std::vector<std::string>> HostMeeting::exchange(const std::string& phase, const Result<std::string>& own,
                                                       const Deadline& deadline) {
  const Status told = store_->append(kLog,
                                     encode({.rank = rank_,
                                             .kind = own.ok() ? HostWord::Kind::kSays : HostWord::Kind::kFailed,
                                             .phase = phase,
                                             .text = own.ok() ? *own : own.error().to_string()}),
                                     deadline);
  if (!own.ok()) return own.error();
  if (!told.ok()) return lost_store(told.error());
  const auto& said = said_[phase];
  while (said.size() < hosts_.size()) {
    const auto entries = store_->read(kLog, seen_, deadline);
    if (!entries.ok()) return lost_store(entries.error());
    if (entries->empty()) break;
    seen_ += entries->size();
    for (const std::string& text : *entries) YOKE_CHECK(take(text));
    // One that has failed later has said its word here: what was wrong then shows soon enough on this host as well.
    for (const auto& [rank, why] : failed_) {
      if (!said.contains(rank)) return base::peer_error(fmt::format("host {} has failed: {}", describe(rank), why));
    }
  }
  std::vector<std::string> all;
  std::vector<std::string> missing;
  for (int rank = 0; rank < size(); ++rank) {
    const auto found = said.find(rank);
    if (found == said.end()) {
      missing.push_back("host " + describe(rank));
    } else {
      all.push_back(found->second);
    }
  }
  if (missing.empty()) return all;
  return base::peer_error(
      fmt::format("{} did not answer within {}; run the same command there, and let it through to {}",
                  base::join_words(missing), base::format_seconds(base::to_seconds(timeout_)), address_));
}

void HostMeeting::leave() {
  // Farewells that do not arrive harm nobody: all has been said.
  if (store_) (void)store_->withdraw_will(patience()).ok();
  store_.reset();
  if (server_) server_->drain(patience());
  server_.reset();
}

}  // namespace yoke::cli
