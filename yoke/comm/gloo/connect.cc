#include "yoke/comm/gloo/connect.h"

#include <fmt/format.h>
#include <gloo/transport/address.h>
#include <gloo/transport/tcp/device.h>

#include <cerrno>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <vector>

#include "yoke/base/thread.h"
#include "yoke/comm/gloo/address.h"

namespace yoke::comm {
namespace {

/// One rank's way through the rendezvous. Lives for one call.
class Rendezvous {
 public:
  Rendezvous(const BackendOptions& options, const base::Deadline& deadline) : options_(options), deadline_(deadline) {}

  base::Result<std::shared_ptr<GlooContext>> run() {
    YOKE_TRY(const std::string address, choose_address());
    YOKE_CHECK(make_ends(address));
    YOKE_CHECK(with_peers([&](int peer) {
      const auto bytes = context_->getPair(peer)->address().bytes();
      return tell(fmt::format("for {}", peer), std::string_view(bytes.data(), bytes.size()));
    }));
    std::vector<std::vector<char>> ends(static_cast<std::size_t>(options_.size));
    YOKE_CHECK(with_peers([&](int peer) -> base::Status {
      YOKE_TRY(const std::string bytes, hear(peer, fmt::format("for {}", options_.rank)));
      ends[static_cast<std::size_t>(peer)].assign(bytes.begin(), bytes.end());
      return {};
    }));
    YOKE_CHECK(connect(ends));
    return std::move(context_);
  }

 private:
  std::string key(int rank, std::string_view what) const {
    return fmt::format("{}/gloo/{}/{}", options_.name, rank, what);
  }
  base::Status tell(std::string_view what, std::string_view value) {
    return options_.store->set(key(options_.rank, what), value, deadline_);
  }
  base::Result<std::string> hear(int rank, std::string_view what) {
    auto value = options_.store->get(key(rank, what), deadline_);
    if (value.ok()) return value;
    return base::peer_error(
        fmt::format("rank {} has not said where it can be reached: {}", rank, value.error().message));
  }

  template <typename Action>
  base::Status with_peers(Action action) {
    for (int peer = 0; peer < options_.size; ++peer) {
      if (peer != options_.rank) YOKE_CHECK(action(peer));
    }
    return {};
  }

  /// The address that the way to the store starts at. On the store's own host that is the loopback, which is right only
  /// if all ranks are there; else it is the address that the way to a rank elsewhere starts at.
  base::Result<std::string> choose_address() {
    std::string own = options_.store->local_address();
    if (own.empty()) own = "127.0.0.1";
    if (!options_.interface.empty()) {
      YOKE_TRY(own, find_own_address(options_.interface, list_own_addresses()));
    }
    YOKE_CHECK(tell("address", own));
    if (!is_loopback(own) || !options_.interface.empty()) return own;
    for (int peer = 0; peer < options_.size; ++peer) {
      if (peer == options_.rank) continue;
      YOKE_TRY(const std::string theirs, hear(peer, "address"));
      if (!is_loopback(theirs)) return own_address_towards(theirs);
    }
    return own;
  }

  /// Makes and listens on this rank's end of each connection.
  base::Status make_ends(const std::string& address) {
    const auto trouble = translate_gloo(-1, [&] {
      const auto device = ::gloo::transport::tcp::CreateDevice(::gloo::transport::tcp::attr(address.c_str()));
      context_ = device->createContext(options_.rank, options_.size);
      context_->setTimeout(::gloo::kNoTimeout);
      for (int peer = 0; peer < options_.size; ++peer) {
        if (peer != options_.rank) context_->createPair(peer);
      }
    });
    if (!trouble) return {};
    return base::peer_error(fmt::format("gloo cannot use the address {}: {}", address, trouble->detail));
  }

  base::Status connect(const std::vector<std::vector<char>>& ends) {
    // Gloo's own limit would hold for each connection; ours is for all of them. Closing an end ends the wait for it.
    const base::Worker limit("gloo-connect", [this](const std::stop_token& stop) -> base::Status {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any never;
      never.wait_until(lock, stop, deadline_.instant(), [] { return false; });
      if (stop.stop_requested()) return {};
      return with_peers([&](int peer) -> base::Status {
        context_->getPair(peer)->close();
        return {};
      });
    });
    return with_peers([&](int peer) -> base::Status {
      const auto trouble =
          translate_gloo(peer, [&] { context_->getPair(peer)->connect(ends[static_cast<std::size_t>(peer)]); });
      const bool late = deadline_.passed(*options_.clock);
      if (!trouble && !late) return {};
      return base::peer_error(fmt::format("gloo cannot connect to rank {}: {}", peer,
                                          late ? "it did not answer in time" : trouble->detail));
    });
  }

  const BackendOptions& options_;
  const base::Deadline deadline_;
  std::shared_ptr<GlooContext> context_;
};

}  // namespace

base::Result<std::shared_ptr<GlooContext>> connect_gloo(const BackendOptions& options, const base::Deadline& deadline) {
  return Rendezvous(options, deadline).run();
}

NoBrokenPipeSignal::NoBrokenPipeSignal() {
  ::sigemptyset(&pipe_);
  ::sigaddset(&pipe_, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
}

NoBrokenPipeSignal::~NoBrokenPipeSignal() {
  if (::sigismember(&before_, SIGPIPE) == 1) return;
  const timespec now{};
  while (::sigtimedwait(&pipe_, nullptr, &now) < 0 && errno == EINTR) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::string gloo_text(const std::exception& fault) {
  const std::string_view text = fault.what();
  const auto end = text.starts_with('[') ? text.find("] ") : std::string_view::npos;
  return std::string(end == std::string_view::npos ? text : text.substr(end + 2));
}

}  // namespace yoke::comm
