#include "yoke/comm/notice.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "yoke/base/text.h"

namespace yoke::comm {
namespace {

constexpr char kSeparator = '\x1f';

/// Texts from elsewhere must not break the line apart.
std::string flat(std::string_view text) {
  std::string result(text);
  std::ranges::replace(result, kSeparator, ' ');
  return result;
}

template <typename T>
bool read_number(std::string_view& line, T& value) {
  const auto end = line.find(kSeparator);
  if (end == std::string_view::npos) return false;
  const auto [stop, problem] = std::from_chars(line.data(), line.data() + end, value);
  const bool whole = problem == std::errc() && stop == line.data() + end;
  line.remove_prefix(end + 1);
  return whole;
}

/// The ranks of all notices that `wanted` picks, in rank order, once each.
template <typename Wanted>
std::vector<int> ranks_of(std::span<const Notice> notices, Wanted wanted) {
  std::vector<int> ranks;
  for (const auto& notice : notices) {
    if (wanted(notice)) ranks.push_back(notice.rank);
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());  // clang 14 cannot compile std::ranges::unique
  return ranks;
}

std::string describe(std::span<const int> ranks, const Membership& members) {
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(members.describe(rank));
  return base::join_words(names);
}

/// `{rank 2 (...)} {was lost}`: what they did, for one and for several.
Verdict about(std::vector<int> ranks, const Membership& members, std::string_view one, std::string_view several = "") {
  const std::string_view what = ranks.size() > 1 && !several.empty() ? several : one;
  std::string cause = fmt::format("{} {}", describe(ranks, members), what);
  return {.ranks = std::move(ranks), .cause = std::move(cause)};
}

/// The rank at the end of the chain of who waits for whom that begins at `rank`: it waits for nobody. Nothing when the
/// chain has no such end.
std::optional<int> end_of_chain(std::span<const Notice> notices, int rank, const Membership& members) {
  for (int step = 0; step < members.size; ++step) {
    const auto said = std::find_if(notices.rbegin(), notices.rend(), [&](const auto& n) { return n.rank == rank; });
    if (said == notices.rend()) return std::nullopt;
    // In a collective that cannot tell whom it waits for.
    if (said->peer < 0 && !said->op.empty()) return std::nullopt;
    if (said->peer < 0) return rank;
    rank = said->peer;
  }
  return std::nullopt;
}

/// Of ranks that are late, those that are not late only because they wait for another one.
std::vector<int> not_held_up(const std::vector<int>& late, std::span<const Notice> notices, const Membership& members) {
  std::vector<int> own_fault;
  for (const int rank : late) {
    if (end_of_chain(notices, rank, members) == rank) own_fault.push_back(rank);
  }
  return own_fault.empty() ? late : own_fault;
}

/// Everybody's last word on what it is doing.
Verdict explain_wait(std::span<const Notice> notices, const Notice& first, const Membership& members) {
  std::vector<int> silent;
  for (int rank = 0; rank < members.size; ++rank) {
    if (std::ranges::none_of(notices, [&](const auto& notice) { return notice.rank == rank; })) silent.push_back(rank);
  }
  if (!silent.empty())
    return about(silent, members, "does not answer: stopped, swapped out or cut off",
                 "do not answer: stopped, swapped out or cut off");
  for (const auto& notice : notices) {
    if (notice.kind == NoticeKind::kTrouble && notice.trouble == Trouble::Kind::kLostPeer && notice.peer >= 0) {
      return about({notice.peer}, members,
                   fmt::format("broke its connection to {}: {}", members.describe(notice.rank), notice.text));
    }
  }
  const auto left = ranks_of(notices, [&](const auto& n) { return n.kind == NoticeKind::kLeft; });
  if (!left.empty()) return about(left, members, "has left the group", "have left the group");
  // A collective is behind: those who have not called it hold up the rest.
  const auto ahead = std::ranges::max_element(notices, {}, &Notice::sequence);
  const auto late = ranks_of(notices, [&](const auto& n) { return n.sequence < ahead->sequence; });
  if (!first.message && !late.empty() && !ahead->op.empty()) {
    return about(not_held_up(late, notices, members), members, "has not called " + ahead->op,
                 "have not called " + ahead->op);
  }
  const auto other = std::ranges::find_if(
      notices, [&](const auto& n) { return !first.message && !n.op.empty() && !first.op.empty() && n.op != first.op; });
  if (other != notices.end()) {
    return {.ranks = {std::min(first.rank, other->rank), std::max(first.rank, other->rank)},
            .cause = fmt::format("{} and {} disagree: the former called {}, the latter {}",
                                 members.describe(first.rank), members.describe(other->rank), first.op, other->op)};
  }
  if (const auto busy = first.message ? end_of_chain(notices, first.rank, members) : std::nullopt) {
    const auto waiter = std::ranges::find(notices, *busy, &Notice::peer);
    if (waiter == notices.end()) return about({*busy}, members, "did not do its part in time");
    return about({*busy}, members, fmt::format("kept {} waiting", members.describe(waiter->rank)));
  }
  if (first.peer >= 0) {
    return about({first.peer}, members, fmt::format("kept {} waiting", members.describe(first.rank)));
  }
  return {.ranks = {}, .cause = "all ranks take part, but it takes longer than the deadline allows"};
}

}  // namespace

std::string encode(const Notice& notice) {
  return fmt::format("{1}{0}{2}{0}{3}{0}{4}{0}{5}{0}{6}{0}{7}{0}{8}", kSeparator, static_cast<int>(notice.kind),
                     notice.rank, notice.sequence, notice.peer, static_cast<int>(notice.trouble),
                     static_cast<int>(notice.message), flat(notice.op), flat(notice.text));
}

std::optional<Notice> decode_notice(std::string_view line, int size) {
  Notice notice;
  int kind = 0;
  int trouble = 0;
  int message = 0;
  if (!read_number(line, kind) || !read_number(line, notice.rank) || !read_number(line, notice.sequence) ||
      !read_number(line, notice.peer) || !read_number(line, trouble) || !read_number(line, message)) {
    return std::nullopt;
  }
  if (kind < 0 || kind > static_cast<int>(NoticeKind::kState) || trouble < 0 ||
      trouble > static_cast<int>(Trouble::Kind::kBroken)) {
    return std::nullopt;
  }
  if (notice.rank < 0 || notice.rank >= size || notice.peer < -1 || notice.peer >= size) return std::nullopt;
  const auto end = line.find(kSeparator);
  if (end == std::string_view::npos || line.find(kSeparator, end + 1) != std::string_view::npos) return std::nullopt;
  notice.kind = static_cast<NoticeKind>(kind);
  notice.trouble = static_cast<Trouble::Kind>(trouble);
  notice.message = message != 0;
  // Both are shown to people: nothing in them may steer a terminal.
  notice.op = base::printable(line.substr(0, end), end);
  notice.text = base::printable(line.substr(end + 1), line.size());
  return notice;
}

std::optional<Verdict> decide(std::span<const Notice> notices, const Membership& members, bool enough) {
  for (const auto& notice : notices) {
    if (notice.kind == NoticeKind::kLost) {
      const auto lost = ranks_of(notices, [](const auto& n) { return n.kind == NoticeKind::kLost; });
      return about(lost, members, "was lost: the process ended or its host is cut off",
                   "were lost: their processes ended or their hosts are cut off");
    }
    if (notice.kind == NoticeKind::kAborted) {
      return about({notice.rank}, members, fmt::format("aborted: {}", notice.text));
    }
    if (notice.kind == NoticeKind::kTrouble && notice.trouble == Trouble::Kind::kMismatch && notice.peer >= 0) {
      return Verdict{.ranks = {std::min(notice.rank, notice.peer), std::max(notice.rank, notice.peer)},
                     .cause = fmt::format("{} and {} disagree: the former {}", members.describe(notice.peer),
                                          members.describe(notice.rank), notice.text)};
    }
  }
  const auto first = std::ranges::find(notices, NoticeKind::kTrouble, &Notice::kind);
  if (first == notices.end()) return std::nullopt;
  const auto heard = ranks_of(notices, [](const auto&) { return true; });
  // A broken connection is often the first sign of a loss that the store is about to announce: hear that out.
  const bool waited = first->trouble == Trouble::Kind::kTimedOut && static_cast<int>(heard.size()) == members.size;
  if (!enough && !waited) return std::nullopt;
  if (first->trouble == Trouble::Kind::kBroken) return about({first->rank}, members, first->text);
  return explain_wait(notices, *first, members);
}

}  // namespace yoke::comm
