#include "yoke/cli/link_survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "yoke/base/document.h"
#include "yoke/base/json.h"
#include "yoke/comm/join.h"
#include "yoke/comm/probe/link_probe.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::cli {
namespace {

using base::Deadline;
using base::Json;
using base::Result;
using base::Status;
using profile::LinkOp;
using profile::LinkProfile;
using profile::LinkScope;

constexpr const char* kSetupKey = "links/setup";
constexpr const char* kIntraKey = "links/intra";
constexpr const char* kResultKey = "links/result";
/// For coming together, beyond the time that others may be measuring.
constexpr base::Duration kPatience = std::chrono::seconds(60);
/// Thirty years in nanoseconds: deadlines of a few times as long can still be told.
constexpr double kLongestBudget = 1e18;

/// Ranks that are measured together.
struct Circle {
  LinkScope scope = LinkScope::kIntra;
  std::vector<int> ranks;                    // of the survey
  std::vector<std::pair<int, int>> couples;  // that send messages, as places in `ranks`
};

/// The first host that has two ranks, and everybody if there are several hosts.
std::vector<Circle> circles_of(const std::vector<std::string>& hosts) {
  std::map<std::string, std::vector<int>> by_host;
  std::vector<int> first_ranks;  // of each host, in order of appearance
  std::vector<int> everybody;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    auto& ranks = by_host[hosts[i]];
    if (ranks.empty()) first_ranks.push_back(static_cast<int>(i));
    ranks.push_back(static_cast<int>(i));
    everybody.push_back(static_cast<int>(i));
  }
  std::vector<Circle> circles;
  for (const int first : first_ranks) {
    const auto& ranks = by_host[hosts[static_cast<std::size_t>(first)]];
    if (ranks.size() < 2) continue;
    circles.push_back({.scope = LinkScope::kIntra, .ranks = ranks, .couples = {{0, 1}}});
    break;
  }
  if (first_ranks.size() < 2) return circles;
  Circle all{.scope = LinkScope::kInter, .ranks = everybody, .couples = {}};
  for (std::size_t i = 0; i + 1 < first_ranks.size(); ++i) all.couples.emplace_back(first_ranks[i], first_ranks[i + 1]);
  circles.push_back(std::move(all));
  return circles;
}

LinkProfile to_profile(const comm::LinkProbe& probe, LinkScope scope, LinkOp op, std::vector<std::string> between) {
  LinkProfile link{.scope = scope,
                   .op = op,
                   .backend = probe.backend,
                   .ranks = op == LinkOp::kMessage ? 2 : probe.ranks,
                   .between = std::move(between),
                   .latency_ms = probe.fit.latency * 1000,
                   .bandwidth = {probe.fit.bytes_per_s},
                   .error = probe.fit.error,
                   .processor_seconds_per_byte = probe.processor_seconds_per_byte};
  for (const auto& sample : probe.samples) {
    link.points.push_back({.bytes = static_cast<std::int64_t>(sample.bytes),
                           .median_ms = sample.seconds * 1000,
                           .spread_ms = sample.spread * 1000,
                           .repeats = sample.repeats});
  }
  return link;
}

/// Two digits are as much as a nominal figure should pretend.
base::Bandwidth rounded(base::Bandwidth measured) {
  const double unit = std::pow(10, std::floor(std::log10(measured.bytes_per_s)) - 1);
  return {std::round(measured.bytes_per_s / unit) * unit};
}

/// What the planner reads: the all-reduces of the first backend.
void put_points(profile::CommProfile& comm, LinkScope scope, std::optional<base::Bandwidth> nominal) {
  const auto is = [&](LinkOp op) {
    return [scope, op](const LinkProfile& link) { return link.scope == scope && link.op == op; };
  };
  const auto reduce = std::ranges::find_if(comm.links, is(LinkOp::kAllReduce));
  if (reduce == comm.links.end()) return;
  const auto message = std::ranges::find_if(comm.links, is(LinkOp::kMessage));
  if (!nominal) nominal = rounded(message == comm.links.end() ? reduce->bandwidth : message->bandwidth);
  (scope == LinkScope::kIntra ? comm.intra_bandwidth : comm.inter_bandwidth) = nominal;
  auto& points = scope == LinkScope::kIntra ? comm.intra : comm.inter;
  for (const auto& point : reduce->points) {
    points.push_back({.ideal_ms = ideal_ms(static_cast<double>(point.bytes), reduce->ranks, *nominal),
                      .measured_ms = point.median_ms,
                      .bytes = point.bytes,
                      .spread_ms = point.spread_ms});
  }
}

class Survey {
 public:
  Survey(comm::Store& store, int rank, const SurveySetup& setup, const base::Clock& clock)
      : store_(store), rank_(rank), setup_(setup), clock_(clock), circles_(circles_of(setup.hosts)) {
    std::size_t probes = 0;
    for (const auto& circle : circles_) probes += setup.backends.size() * (1 + circle.couples.size());
    share_ = setup.budget / static_cast<std::int64_t>(std::max<std::size_t>(probes, 1));
  }

  Result<profile::CommProfile> run() {
    profile::CommProfile comm;
    for (const auto& circle : circles_) {
      const auto own = std::ranges::find(circle.ranks, rank_);
      if (own == circle.ranks.end()) continue;
      const auto place = static_cast<int>(own - circle.ranks.begin());
      std::vector<LinkProfile> links;
      for (const auto& backend : setup_.backends) YOKE_CHECK(measure(circle, place, backend, links));
      if (circle.scope == LinkScope::kIntra && place == 0) {
        YOKE_CHECK(
            store_.set(kIntraKey, profile::to_comm_json({.intra = {}, .inter = {}, .links = links}), patience()));
      }
      if (circle.scope == LinkScope::kInter) comm.links = std::move(links);
    }
    if (rank_ != 0) return receive_links(store_, patience());
    return publish(std::move(comm));
  }

 private:
  /// Long enough for others to finish what they measure without this rank.
  Deadline patience() const { return Deadline::in(kPatience + 2 * setup_.budget, clock_); }

  Result<profile::CommProfile> publish(profile::CommProfile comm) {
    if (!circles_.empty() && circles_.front().scope == LinkScope::kIntra) {
      YOKE_TRY(const std::string text, store_.get(kIntraKey, patience()));
      YOKE_TRY(const profile::CommProfile intra, profile::parse_comm_file(text, "links of one host"));
      comm.links.insert(comm.links.begin(), intra.links.begin(), intra.links.end());
    }
    put_points(comm, LinkScope::kIntra, setup_.intra_bandwidth);
    put_points(comm, LinkScope::kInter, setup_.inter_bandwidth);
    YOKE_CHECK(store_.set(kResultKey, profile::to_comm_json(comm), patience()));
    return comm;
  }

  /// All ops of one backend; a backend that `auto` has chosen before is not measured again.
  Status measure(const Circle& circle, int place, const std::string& backend, std::vector<LinkProfile>& links) {
    const bool all = circle.ranks.size() == setup_.hosts.size();
    if (backend == "mpi" && !all) return {};  // MPI knows one group: that of all ranks
    if (backend == "shm" && circle.scope == LinkScope::kInter && !setup_.emulated) return {};
    comm::JoinOptions join{.name = fmt::format("links-{}-{}", static_cast<int>(circle.scope), backend),
                           .rank = place,
                           .size = static_cast<int>(circle.ranks.size()),
                           .backend = backend};
    // Hosts that are told apart by name may still be one machine, as network namespaces are.
    if (!setup_.emulated) join.host = setup_.hosts.at(static_cast<std::size_t>(rank_));
    YOKE_TRY(const auto group, comm::join(join, store_, patience(), clock_));
    const bool known =
        std::ranges::any_of(links, [&](const LinkProfile& link) { return link.backend == group->backend(); });
    if (!known) YOKE_CHECK(measure_in(circle, *group, links));
    return group->close();
  }

  Status measure_in(const Circle& circle, comm::Group& group, std::vector<LinkProfile>& links) {
    const comm::ProbeOptions options{.sizes = setup_.sizes, .budget = share_, .patience = kPatience + setup_.budget};
    YOKE_TRY(const auto reduces, comm::probe_all_reduce(group, options, clock_));
    links.push_back(to_profile(reduces, circle.scope, LinkOp::kAllReduce, {}));
    for (const auto& [one, other] : circle.couples) {
      YOKE_TRY(const auto messages, comm::probe_messages(group, one, other, options, clock_));
      std::vector<std::string> between;
      if (circle.scope == LinkScope::kInter) {
        for (const int place : {one, other}) {
          between.push_back(setup_.hosts.at(static_cast<std::size_t>(circle.ranks[static_cast<std::size_t>(place)])));
        }
      }
      links.push_back(to_profile(messages, circle.scope, LinkOp::kMessage, std::move(between)));
    }
    return {};
  }

  comm::Store& store_;
  const int rank_;
  const SurveySetup& setup_;
  const base::Clock& clock_;
  const std::vector<Circle> circles_;
  base::Duration share_{};  // of the budget, for each probe
};

}  // namespace

double ideal_ms(double bytes, int ranks, base::Bandwidth bandwidth) {
  return bytes * 4 * (ranks - 1) / ranks / bandwidth.bytes_per_s * 1000;
}

Json to_json(const SurveySetup& setup) {
  Json json{{"hosts", setup.hosts},
            {"emulated", setup.emulated},
            {"backends", setup.backends},
            {"sizes", setup.sizes},
            {"budget_ns", setup.budget.count()}};
  if (setup.intra_bandwidth) json["intra_bandwidth"] = setup.intra_bandwidth->bytes_per_s;
  if (setup.inter_bandwidth) json["inter_bandwidth"] = setup.inter_bandwidth->bytes_per_s;
  return json;
}

Result<SurveySetup> parse_survey(std::string_view json) {
  YOKE_TRY(const base::Document document, base::parse_json(json, "what links to measure"));
  base::Reader reader(document);
  base::View root = reader.root();
  SurveySetup setup;
  for (auto& host : root.field("hosts").items()) setup.hosts.push_back(host.text());
  setup.emulated = root.field("emulated").boolean();
  for (auto& backend : root.field("backends").items()) setup.backends.push_back(backend.text());
  for (auto& size : root.field("sizes").items()) {
    setup.sizes.push_back(static_cast<std::size_t>(size.integer({.least = 4, .most = 1e12})));
  }
  setup.budget = base::Duration(root.field("budget_ns").integer({.least = 0, .most = kLongestBudget}));
  if (auto nominal = root.find("intra_bandwidth")) setup.intra_bandwidth = nominal->bandwidth(base::kPositive);
  if (auto nominal = root.find("inter_bandwidth")) setup.inter_bandwidth = nominal->bandwidth(base::kPositive);
  if (!reader.ok()) return reader.error();
  return setup;
}

Status share_survey(comm::Store& store, const SurveySetup& setup, const Deadline& deadline) {
  return store.set(kSetupKey, to_json(setup).dump(), deadline);
}

Result<SurveySetup> receive_survey(comm::Store& store, const Deadline& deadline) {
  YOKE_TRY(const std::string text, store.get(kSetupKey, deadline));
  return parse_survey(text);
}

Result<profile::CommProfile> survey_links(comm::Store& store, int rank, const SurveySetup& setup,
                                          const base::Clock& clock) {
  return Survey(store, rank, setup, clock).run();
}

Result<profile::CommProfile> receive_links(comm::Store& store, const Deadline& deadline) {
  YOKE_TRY(const std::string text, store.get(kResultKey, deadline));
  return profile::parse_comm_file(text, "links that were measured");
}

Result<profile::CommProfile> survey_in_threads(const SurveySetup& setup, const base::Clock& clock) {
  const auto store = comm::make_memory_store();
  std::vector<Result<profile::CommProfile>> results(setup.hosts.size(), profile::CommProfile{});
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      threads.emplace_back([&, rank] {
        auto own = store->another(Deadline::in(kPatience, clock));
        results[rank] = own.ok() ? survey_links(**own, static_cast<int>(rank), setup, clock) : own.error();
      });
    }
  }
  for (const auto& result : results) {
    if (!result.ok()) return result.error();
  }
  return results.front();
}

}  // namespace yoke::cli
