// A backend that fails on purpose at a given call: for tests of everything that has to survive it.
#pragma once

#include <cstdint>
#include <memory>

#include "yoke/comm/backend.h"

namespace yoke::comm {

struct Fault {
  enum class Kind {
    kDelay,  // the call starts `delay` later
    kDrop,   // the call never happens on this rank: it waits until its deadline
    kDie,    // the process ends as by kill -9
  };
  Kind kind = Kind::kDie;
  std::uint64_t at_call = 1;  // counts collectives and messages together, from 1
  base::Duration delay{};
};

std::unique_ptr<Backend> make_faulty_backend(std::unique_ptr<Backend> inner, Fault fault);

}  // namespace yoke::comm
