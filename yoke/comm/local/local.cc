#include "yoke/comm/local/local.h"

#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <map>
#include <tuple>

#include "yoke/base/mutex.h"
#include "yoke/comm/message/message_backend.h"

namespace yoke::comm {
namespace {

/// One side of a message that the other side has not come for yet. The memory is the caller's.
struct Offer {
  std::span<const std::byte> from;
  std::span<std::byte> into;
  std::optional<Signature> signature;
  bool taken = false;
  bool withdrawn = false;  // its caller has given up: the memory may be gone
  Outcome trouble;
};

/// Where the ranks of one group meet.
struct Hall {
  using Key = std::tuple<int, int, Channel, std::uint32_t>;  // from, to, channel, tag
  base::Mutex mutex;
  base::Condition changed;
  std::map<Key, std::deque<std::shared_ptr<Offer>>> sends YOKE_GUARDED_BY(mutex);
  std::map<Key, std::deque<std::shared_ptr<Offer>>> receives YOKE_GUARDED_BY(mutex);
};

class LocalTransfer final : public Transfer {
 public:
  LocalTransfer(std::shared_ptr<Hall> hall, std::shared_ptr<Offer> offer, int peer)
      : hall_(std::move(hall)), offer_(std::move(offer)), peer_(peer) {}

  ~LocalTransfer() override {
    base::MutexLock lock(hall_->mutex);
    offer_->withdrawn = true;
  }

  Outcome wait(const Call& call) override {
    base::MutexLock lock(hall_->mutex);
    while (!offer_->taken) {
      if (auto trouble = call.ended(peer_)) return trouble;
      hall_->changed.wait(hall_->mutex, base::Deadline::in(std::min(call.left(), kLongestSleep), call.clock()));
    }
    return offer_->trouble;
  }

 private:
  const std::shared_ptr<Hall> hall_;
  const std::shared_ptr<Offer> offer_;
  const int peer_;
};

/// A message is copied straight from the sender's memory into the receiver's by whoever comes second.
class LocalTransport final : public Transport {
 public:
  LocalTransport(int rank, std::shared_ptr<Hall> hall) : rank_(rank), hall_(std::move(hall)) {}

  ~LocalTransport() override {
    // Offers point at the memory of this rank's caller: nobody may take them up any more.
    base::MutexLock lock(hall_->mutex);
    std::erase_if(hall_->sends, [&](const auto& entry) { return std::get<0>(entry.first) == rank_; });
    std::erase_if(hall_->receives, [&](const auto& entry) { return std::get<1>(entry.first) == rank_; });
  }

  std::string_view name() const override { return "local"; }

  std::unique_ptr<Transfer> send(int to, Channel channel, std::uint32_t tag, const Signature* signature,
                                 std::span<const std::byte> bytes) override {
    auto offer = std::make_shared<Offer>();
    offer->from = bytes;
    if (signature != nullptr) offer->signature = *signature;
    base::MutexLock lock(hall_->mutex);
    const Hall::Key key{rank_, to, channel, tag};
    if (auto receive = take(hall_->receives, key)) {
      hand_over(*offer, *receive, rank_);
    } else {
      hall_->sends[key].push_back(offer);
    }
    return std::make_unique<LocalTransfer>(hall_, std::move(offer), to);
  }

  std::unique_ptr<Transfer> receive(int from, Channel channel, std::uint32_t tag, const Signature* signature,
                                    std::span<std::byte> bytes) override {
    auto offer = std::make_shared<Offer>();
    offer->into = bytes;
    if (signature != nullptr) offer->signature = *signature;
    base::MutexLock lock(hall_->mutex);
    const Hall::Key key{from, rank_, channel, tag};
    if (auto send = take(hall_->sends, key)) {
      hand_over(*send, *offer, from);
    } else {
      hall_->receives[key].push_back(offer);
    }
    return std::make_unique<LocalTransfer>(hall_, std::move(offer), from);
  }

  void interrupt() override {
    base::MutexLock lock(hall_->mutex);
    hall_->changed.notify_all();
  }

 private:
  static std::shared_ptr<Offer> take(std::map<Hall::Key, std::deque<std::shared_ptr<Offer>>>& offers,
                                     const Hall::Key& key) {
    const auto found = offers.find(key);
    if (found == offers.end()) return nullptr;
    std::shared_ptr<Offer> offer;
    while (!found->second.empty() && (!offer || offer->withdrawn)) {
      offer = std::move(found->second.front());
      found->second.pop_front();
    }
    if (found->second.empty()) offers.erase(found);
    return offer->withdrawn ? nullptr : offer;
  }

  void hand_over(Offer& send, Offer& receive, int sender) {
    if (send.signature && receive.signature && *send.signature != *receive.signature) {
      receive.trouble = mismatch(sender, *receive.signature, *send.signature);
    } else if (send.from.size() != receive.into.size()) {
      receive.trouble = Trouble{
          .kind = Trouble::Kind::kMismatch,
          .peer = sender,
          .detail = fmt::format("sent {} bytes where this rank expected {}", send.from.size(), receive.into.size())};
    } else if (!send.from.empty()) {
      std::memcpy(receive.into.data(), send.from.data(), send.from.size());
    }
    send.taken = true;
    receive.taken = true;
    hall_->changed.notify_all();
  }

  const int rank_;
  const std::shared_ptr<Hall> hall_;
};

/// Halls by name, for ranks of this process to find each other; a hall lives as long as its ranks.
std::shared_ptr<Hall> find_hall(const std::string& name) {
  static base::Mutex mutex;
  static std::map<std::string, std::weak_ptr<Hall>> halls;
  base::MutexLock lock(mutex);
  std::erase_if(halls, [](const auto& entry) { return entry.second.expired(); });
  auto hall = halls[name].lock();
  if (!hall) {
    hall = std::make_shared<Hall>();
    halls[name] = hall;
  }
  return hall;
}

}  // namespace

base::Result<std::unique_ptr<Backend>> make_local_backend(const BackendOptions& options,
                                                          const base::Deadline& deadline) {
  // The hall's name comes through the store: groups of unlike stores may share a name.
  const std::string key = options.name + "/hall";
  if (options.rank == 0) {
    static std::atomic<std::uint64_t> halls{0};
    YOKE_CHECK(options.store->set(key, fmt::format("{}", halls.fetch_add(1)), deadline));
  }
  YOKE_TRY(const std::string name, options.store->get(key, deadline));
  auto transport = std::make_unique<LocalTransport>(options.rank, find_hall(name));
  return make_message_backend(options.rank, options.size, std::move(transport));
}

}  // namespace yoke::comm
