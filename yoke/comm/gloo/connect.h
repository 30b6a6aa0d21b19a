// Connecting ranks by gloo, and its exceptions as troubles. Only where libgloo is there; used by gloo.cc alone.
#pragma once

#include <gloo/common/error.h>
#include <gloo/transport/context.h>
#include <signal.h>

#include <exception>
#include <memory>
#include <string>

#include "yoke/comm/join.h"

namespace yoke::comm {

using GlooContext = ::gloo::transport::Context;

/// Connects this rank with every other one. `options.size` must be more than one.
base::Result<std::shared_ptr<GlooContext>> connect_gloo(const BackendOptions& options, const base::Deadline& deadline);

/// Keeps SIGPIPE from this thread while it is in gloo, and from threads that gloo starts meanwhile.
class NoBrokenPipeSignal {
 public:
  NoBrokenPipeSignal();
  ~NoBrokenPipeSignal();
  NoBrokenPipeSignal(const NoBrokenPipeSignal&) = delete;
  NoBrokenPipeSignal& operator=(const NoBrokenPipeSignal&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
};

/// Without the `[file:line] ` of gloo's own source that its messages start with.
std::string gloo_text(const std::exception& fault);

/// Runs something of gloo's that concerns `peer`; what it throws becomes the trouble.
template <typename Action>
Outcome translate_gloo(int peer, Action action) {
  const NoBrokenPipeSignal guard;
  try {
    action();
  } catch (const ::gloo::IoException& fault) {
    return Trouble{.kind = Trouble::Kind::kLostPeer, .peer = peer, .detail = gloo_text(fault)};
  } catch (const std::exception& fault) {
    return Trouble{.kind = Trouble::Kind::kBroken, .peer = peer, .detail = gloo_text(fault)};
  }
  return std::nullopt;
}

}  // namespace yoke::comm
