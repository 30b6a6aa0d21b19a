#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <optional>

#include "yoke/base/mutex.h"
#include "yoke/base/thread.h"
#include "yoke/comm/store/board.h"
#include "yoke/comm/store/proof.h"
#include "yoke/comm/store/socket.h"
#include "yoke/comm/store/tcp_store.h"
#include "yoke/comm/store/wire.h"

namespace yoke::comm {
namespace {

/// A client whose host has vanished is declared dead after this long; one whose process died, at once.
constexpr base::Duration kPatience = std::chrono::seconds(5);

/// One thread, one poll() loop: but for the number of clients, everything below belongs to that thread.
class Server final : public TcpStoreServer {
 public:
  Server(Descriptor listener, std::string token)
      : token_(std::move(token)),
        listener_(std::move(listener)),
        port_(port_of(listener_)),
        wake_(make_wake_event()),
        thread_("yoke-store", [this](std::stop_token stop) { return serve(stop); }) {}

  ~Server() override {
    thread_.request_stop();
    wake(wake_);
  }

  std::uint16_t port() const override { return port_; }

  bool drain(const base::Deadline& deadline) override {
    base::MutexLock lock(mutex_);
    while (connected_ > 0) {
      if (!changed_.wait(mutex_, deadline)) return connected_ == 0;
    }
    return true;
  }

 private:
  struct Client {
    Descriptor socket;
    std::string in;
    std::string out;
    std::optional<StoreRequest> waiting;  // asked for what is not there yet
    base::Instant answer_by{};
    Will will;
    std::string from_client = {};  // the random texts of both ends
    std::string from_server = {};
    bool admitted = false;  // knows the token, or there is none
    bool gone = false;
  };

  base::Status serve(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<pollfd> watched{{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                                  {.fd = listener_.get(), .events = POLLIN, .revents = 0}};
      for (const auto& client : clients_) {
        const auto events = static_cast<short>(POLLIN | (client.out.empty() ? 0 : POLLOUT));
        watched.push_back({.fd = client.socket.get(), .events = events, .revents = 0});
      }
      ::poll(watched.data(), watched.size(), milliseconds_to_next_answer());
      auto event = watched.begin() + 2;
      for (auto& client : clients_) {
        if ((event->revents & (POLLIN | POLLHUP | POLLERR)) != 0) read_from(client);
        ++event;
      }
      if ((watched[1].revents & POLLIN) != 0) accept_clients();
      bury_the_gone();
      answer_waiting();
      for (auto& client : clients_) write_to(client);
      base::MutexLock lock(mutex_);
      connected_ = clients_.size();
      changed_.notify_all();
    }
    return {};
  }

  int milliseconds_to_next_answer() const {
    base::Instant next = base::Instant::max();
    for (const auto& client : clients_) {
      if (client.waiting) next = std::min(next, client.answer_by);
    }
    if (next == base::Instant::max()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - clock_.now()).count();
    return static_cast<int>(std::clamp<long>(left, 0, 60'000));
  }

  void accept_clients() {
    for (;;) {
      Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.valid()) return;
      detect_silence(socket, kPatience);
      const int on = 1;
      ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      clients_.push_back({.socket = std::move(socket), .admitted = token_.empty()});
    }
  }

  void read_from(Client& client) {
    char chunk[65536];
    for (;;) {
      const auto got = ::recv(client.socket.get(), chunk, sizeof(chunk), 0);
      if (got > 0) {
        client.in.append(chunk, static_cast<std::size_t>(got));
        continue;
      }
      if (got < 0 && errno == EINTR) continue;
      if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) client.gone = true;
      break;
    }
    bool garbage = false;
    while (const auto frame = take_frame(client.in, garbage)) {
      const auto request = decode_request(*frame);
      // A client of ours sends one request at a time; whatever this is, it is not one.
      if (!request || client.waiting) {
        client.gone = true;
        return;
      }
      client.waiting = *request;
      client.answer_by = clock_.now() + std::chrono::milliseconds(std::clamp<std::int64_t>(request->wait_ms, 0, kDay));
      answer(client);
    }
    if (garbage) client.gone = true;
  }

  void write_to(Client& client) {
    while (!client.out.empty()) {
      const auto sent = ::send(client.socket.get(), client.out.data(), client.out.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) {
        client.gone = client.gone || (errno != EAGAIN && errno != EWOULDBLOCK);
        return;
      }
      client.out.erase(0, static_cast<std::size_t>(sent));
    }
  }

  void bury_the_gone() {
    for (auto client = clients_.begin(); client != clients_.end();) {
      if (!client->gone) {
        ++client;
        continue;
      }
      client->will.execute(board_);
      client = clients_.erase(client);
    }
  }

  void answer_waiting() {
    for (auto& client : clients_) {
      if (client.waiting) answer(client);
    }
  }

  /// Answers if there is something to say or the wait is over.
  void answer(Client& client) {
    const StoreRequest& request = *client.waiting;
    StoreReply reply;
    const bool introduction = request.command == StoreCommand::kHello || request.command == StoreCommand::kProve;
    if (!client.admitted && !introduction) {
      client.gone = true;  // a stranger who asks for the board without a word
      client.waiting.reset();
      return;
    }
    switch (request.command) {
      case StoreCommand::kHello:
        client.from_client = request.value;
        client.from_server = random_text();
        reply.values = {client.from_server};
        break;
      case StoreCommand::kProve: {
        const bool knows = !client.from_server.empty() &&
                           same_proof(request.value, client_proof(token_, client.from_client, client.from_server));
        reply.found = knows;
        if (knows) reply.values = {server_proof(token_, client.from_client, client.from_server)};
        client.admitted = client.admitted || knows;
        client.from_server.clear();  // one try for each text
        client.out += encode(reply);
        client.waiting.reset();
        return;
      }
      case StoreCommand::kSet:
        board_.values[request.key] = request.value;
        break;
      case StoreCommand::kAdd:
        // Unsigned, as a stranger's numbers may overflow.
        reply.number = static_cast<std::int64_t>(static_cast<std::uint64_t>(board_.counters[request.key]) +
                                                 static_cast<std::uint64_t>(request.number));
        board_.counters[request.key] = reply.number;
        break;
      case StoreCommand::kAppend:
        board_.logs[request.key].push_back(request.value);
        break;
      case StoreCommand::kLeaveWill:
        client.will = {request.key, request.value};
        break;
      case StoreCommand::kWithdrawWill:
        client.will = {};
        break;
      case StoreCommand::kGet: {
        const auto found = board_.values.find(request.key);
        reply.found = found != board_.values.end();
        if (reply.found) reply.values = {found->second};
        break;
      }
      case StoreCommand::kRead:
        reply.values = board_.entries(request.key, static_cast<std::size_t>(request.number));
        reply.found = !reply.values.empty();
        break;
    }
    if (!reply.found && clock_.now() < client.answer_by) return;
    client.out += encode(reply);
    client.waiting.reset();
  }

  static constexpr std::int64_t kDay = 86'400'000;

  const base::SystemClock clock_;
  const std::string token_;
  const Descriptor listener_;
  const std::uint16_t port_;
  const Descriptor wake_;
  Board board_;
  std::list<Client> clients_;
  base::Mutex mutex_;
  base::Condition changed_;
  std::size_t connected_ YOKE_GUARDED_BY(mutex_) = 0;
  base::Worker thread_;  // last: it uses everything above
};

}  // namespace

base::Result<std::unique_ptr<TcpStoreServer>> TcpStoreServer::start(const std::string& host, std::uint16_t port,
                                                                    const std::string& token) {
  YOKE_TRY(Descriptor listener, listen_on(host, port));
  return std::unique_ptr<TcpStoreServer>(std::make_unique<Server>(std::move(listener), token));
}

}  // namespace yoke::comm
