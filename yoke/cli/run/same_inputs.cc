#include "yoke/cli/run/same_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "yoke/base/difference.h"
#include "yoke/base/files.h"
#include "yoke/base/sha256.h"
#include "yoke/cli/launch/machine.h"
#include "yoke/cli/run/job_input.h"
#include "yoke/cli/run/prepare.h"

namespace yoke::cli {
namespace {

using base::Result;
using base::Status;

struct Kind {
  const char* name;
  std::optional<std::string> RunInputs::*text;
};
constexpr std::array<Kind, 3> kKinds{Kind{"job file", &RunInputs::job}, Kind{"list of --set", &RunInputs::settings},
                                     Kind{"plan file", &RunInputs::plan}};

std::string hash_key(const Kind& kind) {
  return fmt::format("run/input/{}/hash", kind.name);
}
std::string text_key(const Kind& kind) {
  return fmt::format("run/input/{}/text", kind.name);
}
std::string answer_key(int rank) {
  return fmt::format("run/input/answer/{}", rank);
}

std::optional<std::string> text_of(const std::string& file) {
  auto text = base::read_file(file);
  return text.ok() ? std::optional(*std::move(text)) : std::nullopt;
}

/// Rank 0: what it was given, then what the others say to it.
Status share(comm::Store& store, int size, const RunInputs& own, const base::Deadline& deadline) {
  for (const Kind& kind : kKinds) {
    const auto& text = own.*kind.text;
    YOKE_CHECK(store.set(text_key(kind), text.value_or(""), deadline));
    YOKE_CHECK(store.set(hash_key(kind), text ? base::sha256(*text) : "", deadline));
  }
  for (int rank = 1; rank < size; ++rank) {
    YOKE_TRY(const std::string fault, store.get(answer_key(rank), deadline));
    if (!fault.empty()) return base::input_error(fault);
  }
  return {};
}

/// The first difference, or nothing.
Result<std::string> compare(comm::Store& store, int rank, const RunInputs& own, const base::Deadline& deadline) {
  for (const Kind& kind : kKinds) {
    const auto& text = own.*kind.text;
    if (!text) continue;
    YOKE_TRY(const std::string hash, store.get(hash_key(kind), deadline));
    if (hash.empty() || hash == base::sha256(*text)) continue;
    YOKE_TRY(const std::string theirs, store.get(text_key(kind), deadline));
    return fmt::format(
        "the {0} of rank {1} (on {2}) is not that of rank 0; the first difference, rank 0 and rank {1}: "
        "{3}; expected the same {0} on all hosts, or the file on the host of rank 0 only",
        kind.name, rank, host_name(), base::first_difference(theirs, *text));
  }
  return std::string();
}

}  // namespace

RunInputs read_inputs(const RunOptions& options) {
  RunInputs inputs{.job = text_of(options.job), .settings = fmt::format("{}", fmt::join(options.set, "\n"))};
  const auto job = load_job(options.job, options.set);
  if (job.ok() && !job->parallel.plan.empty()) inputs.plan = text_of(job->parallel.plan);
  return inputs;
}

Status compare_inputs(comm::Store& store, const RankIdentity& identity, const RunInputs& own,
                      const base::Deadline& deadline) {
  if (identity.rank == 0) return share(store, identity.size, own, deadline);
  YOKE_TRY(const std::string fault, compare(store, identity.rank, own, deadline));
  return store.set(answer_key(identity.rank), fault, deadline);
}

}  // namespace yoke::cli
