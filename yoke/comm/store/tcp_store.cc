#include "yoke/comm/store/tcp_store.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "yoke/base/mutex.h"
#include "yoke/comm/store/proof.h"
#include "yoke/comm/store/socket.h"
#include "yoke/comm/store/wire.h"

namespace yoke::comm {
namespace {

/// How much later than the deadline an answer may come: the server itself waits until the deadline before it says that
/// there is nothing.
constexpr base::Duration kGrace = std::chrono::milliseconds(500);

class TcpStore final : public Store {
 public:
  TcpStore(HostPort address, std::string token, Descriptor socket, const base::Clock& clock)
      : address_(std::move(address)),
        token_(std::move(token)),
        local_address_(local_address_of(socket)),
        clock_(clock),
        interrupted_(make_wake_event()),
        socket_(std::move(socket)) {}

  base::Status set(std::string_view key, std::string_view value, const base::Deadline& deadline) override {
    return done(ask({.command = StoreCommand::kSet, .key = std::string(key), .value = std::string(value)}, deadline));
  }

  base::Result<std::string> get(std::string_view key, const base::Deadline& deadline) override {
    YOKE_TRY(const StoreReply reply, ask({.command = StoreCommand::kGet, .key = std::string(key)}, deadline));
    if (!reply.found || reply.values.empty()) {
      return base::peer_error(fmt::format("nobody has set `{}` in time", key));
    }
    return reply.values.front();
  }

  base::Result<std::int64_t> add(std::string_view key, std::int64_t amount, const base::Deadline& deadline) override {
    YOKE_TRY(const StoreReply reply,
             ask({.command = StoreCommand::kAdd, .number = amount, .key = std::string(key)}, deadline));
    return reply.number;
  }

  base::Status append(std::string_view log, std::string_view entry, const base::Deadline& deadline) override {
    return done(
        ask({.command = StoreCommand::kAppend, .key = std::string(log), .value = std::string(entry)}, deadline));
  }

  base::Result<std::vector<std::string>> read(std::string_view log, std::size_t from,
                                              const base::Deadline& deadline) override {
    const auto index = static_cast<std::int64_t>(from);
    YOKE_TRY(StoreReply reply,
             ask({.command = StoreCommand::kRead, .number = index, .key = std::string(log)}, deadline));
    return std::move(reply.values);
  }

  base::Status leave_will(std::string_view log, std::string_view entry, const base::Deadline& deadline) override {
    return done(
        ask({.command = StoreCommand::kLeaveWill, .key = std::string(log), .value = std::string(entry)}, deadline));
  }

  base::Status withdraw_will(const base::Deadline& deadline) override {
    return done(ask({.command = StoreCommand::kWithdrawWill}, deadline));
  }

  base::Result<std::unique_ptr<Store>> another(const base::Deadline& deadline) override {
    return open(address_, token_, deadline, clock_);
  }

  /// One attempt to connect, and to be let in.
  static base::Result<std::unique_ptr<Store>> open(const HostPort& address, const std::string& token,
                                                   const base::Deadline& deadline, const base::Clock& clock) {
    YOKE_TRY(Descriptor socket, connect_to(address, deadline, clock));
    detect_silence(socket, kPatience);
    auto store = std::make_unique<TcpStore>(address, token, std::move(socket), clock);
    if (!token.empty()) YOKE_CHECK(store->prove(deadline));
    return std::unique_ptr<Store>(std::move(store));
  }

  void interrupt() override { wake(interrupted_); }

  std::string local_address() const override { return local_address_; }

  static constexpr base::Duration kPatience = std::chrono::seconds(5);

 private:
  /// Both ends show that they know the token.
  base::Status prove(const base::Deadline& deadline) {
    const std::string ours = random_text();
    YOKE_TRY(const StoreReply hello, ask({.command = StoreCommand::kHello, .value = ours}, deadline));
    const std::string theirs = hello.values.empty() ? "" : hello.values.front();
    YOKE_TRY(const StoreReply reply,
             ask({.command = StoreCommand::kProve, .value = client_proof(token_, ours, theirs)}, deadline));
    if (!reply.found) {
      return base::input_error(fmt::format("the store at {}:{} refuses the token; expected the one it was started with",
                                           address_.host, address_.port));
    }
    if (!reply.values.empty() && same_proof(reply.values.front(), server_proof(token_, ours, theirs))) return {};
    base::MutexLock lock(mutex_);
    return lost("it does not know the token, so it is not the one that was meant");
  }

  static base::Status done(const base::Result<StoreReply>& reply) {
    if (!reply.ok()) return reply.error();
    return {};
  }

  base::Result<StoreReply> ask(StoreRequest request, const base::Deadline& deadline) {
    base::MutexLock lock(mutex_);
    if (!socket_.valid()) return lost("the connection was lost before");
    request.wait_ms = std::chrono::ceil<std::chrono::milliseconds>(deadline.left(clock_)).count();
    const auto give_up = base::Deadline::at(deadline.instant() + kGrace);
    std::string out = encode(request);
    if (out.size() > kLargestFrame) {
      return base::input_error(fmt::format("a value of {} bytes is too large for the store; at most {} are expected",
                                           request.value.size(), kLargestFrame));
    }
    while (!out.empty()) {
      YOKE_CHECK(wait_for(POLLOUT, give_up));
      const auto sent = ::send(socket_.get(), out.data(), out.size(), MSG_NOSIGNAL);
      if (sent > 0) out.erase(0, static_cast<std::size_t>(sent));
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return lost(std::strerror(errno));
    }
    for (;;) {
      bool garbage = false;
      if (const auto frame = take_frame(in_, garbage)) {
        const auto reply = decode_reply(*frame);
        if (!reply) return lost("it answered with something that is not a store's reply");
        return *reply;
      }
      if (garbage) return lost("it answered with something that is not a store's reply");
      YOKE_CHECK(wait_for(POLLIN, give_up));
      char chunk[65536];
      const auto got = ::recv(socket_.get(), chunk, sizeof(chunk), 0);
      if (got == 0) return lost("it closed the connection");
      if (got < 0 && errno != EAGAIN && errno != EINTR) return lost(std::strerror(errno));
      if (got > 0) in_.append(chunk, static_cast<std::size_t>(got));
    }
  }

  base::Status wait_for(short events, const base::Deadline& deadline) YOKE_REQUIRES(mutex_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left(clock_)).count();
    pollfd watched[] = {{.fd = socket_.get(), .events = events, .revents = 0},
                        {.fd = interrupted_.get(), .events = POLLIN, .revents = 0}};
    const int ready = ::poll(watched, 2, static_cast<int>(std::min<long>(left, 1'000'000)));
    // After either of these a late reply may still come: the connection cannot be used again.
    if ((watched[1].revents & POLLIN) != 0) return lost("the wait was interrupted");
    if (ready == 0) return lost("it does not answer");
    return {};
  }

  base::Error lost(std::string_view why) YOKE_REQUIRES(mutex_) {
    socket_.reset();
    return base::peer_error(fmt::format("the store at {}:{}: {}", address_.host, address_.port, why));
  }

  const HostPort address_;
  const std::string token_;  // empty: none
  const std::string local_address_;
  const base::Clock& clock_;
  const Descriptor interrupted_;
  base::Mutex mutex_;
  Descriptor socket_ YOKE_GUARDED_BY(mutex_);
  std::string in_ YOKE_GUARDED_BY(mutex_);
};

}  // namespace

base::Result<std::unique_ptr<Store>> connect_tcp_store(const std::string& address, const base::Deadline& deadline,
                                                       const base::Clock& clock, const std::string& token) {
  YOKE_TRY(const HostPort parsed, parse_address(address));
  for (;;) {
    auto store = TcpStore::open(parsed, token, deadline, clock);
    if (store.ok() || store.error().kind != base::ErrorKind::kPeer || deadline.passed(clock)) return store;
    std::this_thread::sleep_for(std::min<base::Duration>(deadline.left(clock), std::chrono::milliseconds(20)));
  }
}

}  // namespace yoke::comm
