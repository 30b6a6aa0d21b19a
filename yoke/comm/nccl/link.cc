#include "yoke/comm/nccl/link.h"

#include <fmt/format.h>

#include <utility>

#include "yoke/comm/poll.h"

namespace yoke::comm {
namespace {

Trouble broken(std::string detail) {
  return {.detail = std::move(detail)};
}

/// Frees device memory when it goes out of scope.
struct DeviceMemory {
  ~DeviceMemory() { (void)cudaFree(data); }
  void* data = nullptr;
};

}  // namespace

Outcome translate_cuda(cudaError_t code) {
  if (code == cudaSuccess) return std::nullopt;
  return broken(fmt::format("CUDA: {}", cudaGetErrorString(code)));
}

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ncclFloat32;
    case DType::kF64:
      return ncclFloat64;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kF16:
      return ncclFloat16;
    case DType::kI32:
      return ncclInt32;
    case DType::kI64:
      return ncclInt64;
    case DType::kU8:
      break;
  }
  return ncclUint8;
}

ncclRedOp_t nccl_reduction(Reduction reduction) {
  return reduction == Reduction::kMax ? ncclMax : ncclSum;
}

NcclLink::~NcclLink() {
  (void)cudaSetDevice(device_);
  if (communicator_ != nullptr) (void)ncclCommAbort(communicator_);
  if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
}

Outcome NcclLink::open(const ncclUniqueId& id, int size, int rank, const Ended& ended) {
  if (auto trouble = translate_cuda(cudaSetDevice(device_))) return trouble;
  if (auto trouble = translate_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking))) return trouble;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // every call returns at once, so that every wait is ours
  return settle(ncclCommInitRankConfig(&communicator_, size, id, rank, &config), ended);
}

Outcome NcclLink::run(const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& start, const Ended& ended) {
  if (communicator_ == nullptr) return broken("NCCL: the communicator was given up before");
  if (auto trouble = translate_cuda(cudaSetDevice(device_))) return trouble;
  ncclResult_t result = ncclGroupStart();
  const ncclResult_t started = result == ncclSuccess ? start(communicator_, stream_) : result;
  if (result == ncclSuccess) result = ncclGroupEnd();
  if (started != ncclSuccess && started != ncclInProgress) result = started;
  if (auto trouble = settle(result, ended)) return trouble;
  return drain(ended);
}

Outcome NcclLink::exchange(
    std::span<const std::byte> share, std::span<std::byte> all,
    const std::function<ncclResult_t(std::byte* share, std::byte* all, ncclComm_t, cudaStream_t)>& start,
    const Ended& ended) {
  if (auto trouble = translate_cuda(cudaSetDevice(device_))) return trouble;
  DeviceMemory memory;
  if (auto trouble = translate_cuda(cudaMalloc(&memory.data, share.size() + all.size()))) return trouble;
  auto* device_share = static_cast<std::byte*>(memory.data);
  auto* device_all = device_share + share.size();
  if (!share.empty()) {
    const auto code = cudaMemcpyAsync(device_share, share.data(), share.size(), cudaMemcpyHostToDevice, stream_);
    if (auto trouble = translate_cuda(code)) return trouble;
  }
  const auto move = [&](ncclComm_t communicator, cudaStream_t stream) {
    return start(device_share, device_all, communicator, stream);
  };
  if (auto trouble = run(move, ended)) return trouble;
  if (all.empty()) return std::nullopt;
  return translate_cuda(cudaMemcpy(all.data(), device_all, all.size(), cudaMemcpyDeviceToHost));
}

/// Until NCCL has taken up what it was asked for.
Outcome NcclLink::settle(ncclResult_t result, const Ended& ended) {
  const auto taken_up = [&](Outcome& trouble) {
    if (result == ncclInProgress && communicator_ != nullptr) {
      ncclResult_t state = ncclSuccess;
      const ncclResult_t asked = ncclCommGetAsyncError(communicator_, &state);
      result = asked == ncclSuccess ? state : asked;
    }
    if (result == ncclInProgress) return false;
    if (result != ncclSuccess) {
      trouble = broken(fmt::format("NCCL: {}: {}", ncclGetErrorString(result), ncclGetLastError(communicator_)));
      if (result == ncclRemoteError) trouble->kind = Trouble::Kind::kLostPeer;
    }
    return true;
  };
  if (auto trouble = poll(taken_up, ended, clock_)) return give_up(*std::move(trouble));
  return std::nullopt;
}

/// Until the stream has done all it was given, while the communicator is well.
Outcome NcclLink::drain(const Ended& ended) {
  const auto drained = [&](Outcome& trouble) {
    const cudaError_t code = cudaStreamQuery(stream_);
    if (code == cudaSuccess) return true;
    if (code != cudaErrorNotReady) {
      trouble = translate_cuda(code);
      return true;
    }
    ncclResult_t state = ncclSuccess;
    (void)ncclCommGetAsyncError(communicator_, &state);
    if (state == ncclSuccess || state == ncclInProgress) return false;
    trouble = settle(state, ended);
    return true;
  };
  if (auto trouble = poll(drained, ended, clock_)) return give_up(*std::move(trouble));
  return std::nullopt;
}

/// Ends the kernels that wait for other ranks, so that the caller may have its memory back.
Outcome NcclLink::give_up(Trouble trouble) {
  if (communicator_ != nullptr) (void)ncclCommAbort(std::exchange(communicator_, nullptr));
  if (stream_ != nullptr) (void)cudaStreamSynchronize(stream_);
  return trouble;
}

}  // namespace yoke::comm
