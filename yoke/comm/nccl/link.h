// One NCCL communicator with the stream it runs on. Only where NCCL is there; used by nccl.cc alone.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "yoke/comm/backend.h"

namespace yoke::comm {

/// Says why a wait has to end; asked again and again while there is nothing to report.
using Ended = std::function<Outcome()>;

Outcome translate_cuda(cudaError_t code);
ncclDataType_t nccl_type(DType dtype);
ncclRedOp_t nccl_reduction(Reduction reduction);

/// Owned and used by one thread at a time. Every call that starts something also waits for it. After trouble nothing
/// that was started touches the caller's memory any more, and the link is good for nothing but destroying.
class NcclLink {
 public:
  NcclLink(int device, const base::Clock& clock) : device_(device), clock_(clock) {}
  /// Frees; does not wait for other ranks.
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  /// Every rank of the communicator calls it with the same id.
  Outcome open(const ncclUniqueId& id, int size, int rank, const Ended& ended);

  /// Runs what `start` starts on the communicator and stream, as one group of NCCL's.
  Outcome run(const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& start, const Ended& ended);
  /// Small values of the host that travel as NCCL wants it: through device memory. `share` is this rank's part of
  /// `all`; `start` moves between the device's copies of them.
  Outcome exchange(std::span<const std::byte> share, std::span<std::byte> all,
                   const std::function<ncclResult_t(std::byte* share, std::byte* all, ncclComm_t, cudaStream_t)>& start,
                   const Ended& ended);

 private:
  Outcome settle(ncclResult_t result, const Ended& ended);
  Outcome drain(const Ended& ended);
  Outcome give_up(Trouble trouble);

  const int device_;
  const base::Clock& clock_;
  ncclComm_t communicator_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace yoke::comm
