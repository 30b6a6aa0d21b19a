#include "yoke/comm/monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace yoke::comm {
namespace {

std::string log_of(const Membership& members) {
  return members.name + "/notices";
}

/// The store answers in microseconds or not at all.
constexpr base::Duration kStorePatience = std::chrono::seconds(2);
/// A listener looks up this often although nothing was said.
constexpr base::Duration kLookUp = std::chrono::seconds(30);

}  // namespace

base::Status Monitor::leave_will(Store& post, const Membership& members, const base::Deadline& deadline) {
  return post.leave_will(log_of(members), encode({.kind = NoticeKind::kLost, .rank = members.rank}), deadline);
}

Monitor::Monitor(const Membership& members, std::unique_ptr<Store> watch, std::unique_ptr<Store> post,
                 const base::Clock& clock, Ears ears)
    : members_(members),
      clock_(clock),
      ears_(std::move(ears)),
      watch_(std::move(watch)),
      post_(std::move(post)),
      thread_("yoke-monitor", [this](std::stop_token stop) { return listen(stop); }) {}

Monitor::~Monitor() {
  thread_.request_stop();
  watch_->interrupt();
}

void Monitor::tell(const Notice& notice) {
  // A store that does not take the notice is gone; the listening thread finds that out and says so.
  (void)post_->append(log_of(members_), encode(notice), base::Deadline::in(kStorePatience, clock_));
}

base::Status Monitor::withdraw_will() {
  return post_->withdraw_will(base::Deadline::in(kStorePatience, clock_));
}

base::Status Monitor::listen(const std::stop_token& stop) {
  const std::string log = log_of(members_);
  std::vector<Notice> notices;
  std::size_t read = 0;
  std::optional<base::Deadline> answers_by;  // set by the first sign of trouble
  while (!stop.stop_requested()) {
    const auto entries = watch_->read(log, read, answers_by.value_or(base::Deadline::in(kLookUp, clock_)));
    if (stop.stop_requested()) break;
    if (!entries.ok()) {
      const bool elsewhere = members_.store_rank == kElsewhere;
      ears_.failed(
          {.ranks = elsewhere ? std::vector<int>{} : std::vector{members_.store_rank},
           .cause = fmt::format("{} serves the store and was lost: {}",
                                elsewhere ? "a process outside this group" : members_.describe(members_.store_rank),
                                entries.error().message)});
      break;
    }
    read += entries->size();
    for (const auto& entry : *entries) {
      const auto notice = decode_notice(entry, members_.size);
      if (!notice) continue;
      if (notice->kind == NoticeKind::kLeft && notice->rank != members_.rank) ears_.left(*notice);
      notices.push_back(*notice);
    }
    const bool trouble = std::ranges::any_of(notices, [](const auto& n) { return n.kind == NoticeKind::kTrouble; });
    if (trouble && !answers_by) {
      answers_by = base::Deadline::in(kPatience, clock_);
      tell(ears_.state());
    }
    if (const auto verdict = decide(notices, members_, answers_by && answers_by->passed(clock_))) {
      ears_.failed(*verdict);
      break;
    }
  }
  return {};
}

}  // namespace yoke::comm
