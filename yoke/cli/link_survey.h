// One rank's part in measuring the links of all: which groups are formed, what is measured in each, and how the answer
// gets to every rank.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/json.h"
#include "yoke/base/result.h"
#include "yoke/base/units.h"
#include "yoke/comm/store/store.h"
#include "yoke/profile/profile.h"

namespace yoke::cli {

/// What all ranks must agree on; the one who starts the survey decides.
struct SurveySetup {
  std::vector<std::string> hosts;     // of each rank: ranks of one host are joined as `intra`, all of them as `inter`
  bool emulated = false;              // the hosts are names only: all ranks share this machine
  std::vector<std::string> backends;  // to measure, the first of them for the planner
  std::vector<std::size_t> sizes;     // bytes, ascending
  base::Duration budget{};            // for everything together
  // What the ideal times are computed with; absent: what was measured.
  std::optional<base::Bandwidth> intra_bandwidth = {};
  std::optional<base::Bandwidth> inter_bandwidth = {};
  bool operator==(const SurveySetup&) const = default;
};

base::Json to_json(const SurveySetup& setup);
base::Result<SurveySetup> parse_survey(std::string_view json);
/// For the other ranks, by the store they all have.
base::Status share_survey(comm::Store& store, const SurveySetup& setup, const base::Deadline& deadline);
base::Result<SurveySetup> receive_survey(comm::Store& store, const base::Deadline& deadline);

/// Measures as rank `rank` of setup.hosts.size(). Every rank calls it, each with a client of the same store of its own,
/// and gets the same profile. Intra links are those of the first host that has two ranks.
base::Result<profile::CommProfile> survey_links(comm::Store& store, int rank, const SurveySetup& setup,
                                                const base::Clock& clock);
/// The answer, for whoever is no rank itself.
base::Result<profile::CommProfile> receive_links(comm::Store& store, const base::Deadline& deadline);

/// All ranks as threads of this process.
base::Result<profile::CommProfile> survey_in_threads(const SurveySetup& setup, const base::Clock& clock);

/// `4 (n-1)/n bytes / bandwidth`, as JABAS counts it.
double ideal_ms(double bytes, int ranks, base::Bandwidth bandwidth);

}  // namespace yoke::cli
