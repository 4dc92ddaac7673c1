#include "comm/nccl/nccl_gpu.h"

#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "comm/communicator.h"

namespace foretime::comm {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kShutdownLimit{30.0};

template <class Finished>
bool comes_true(Finished&& finished) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(kShutdownLimit);
  while (!finished()) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace

std::string cuda_text(const char* what, cudaError_t code) {
  return fmt::format("{}: {}", what, cudaGetErrorString(code));
}

Gpu::Gpu(std::shared_ptr<MpiGroup> g, int i) : group(std::move(g)), index(i) {}

Gpu::~Gpu() {
  cudaSetDevice(index);
  stop();
  if (stream != nullptr) cudaStreamDestroy(stream);
}

void Gpu::finish() noexcept {
  if (comm == nullptr) return;
  cudaSetDevice(index);
  const auto settled = [&] {
    ncclResult_t state = ncclSuccess;
    return ncclCommGetAsyncError(comm, &state) != ncclSuccess || state != ncclInProgress;
  };
  if (comes_true([&] { return cudaStreamQuery(stream) != cudaErrorNotReady; })) {
    const auto code = ncclCommFinalize(comm);
    ncclResult_t state = ncclSuccess;
    if ((code == ncclSuccess || code == ncclInProgress) && comes_true(settled) &&
        ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclSuccess) {
      ncclCommDestroy(comm);
      comm = nullptr;
    }
  }
  stop();
}

void Gpu::cuda(cudaError_t code, const char* what) {
  if (code != cudaSuccess) fail(cuda_text(what, code));
}

void Gpu::nccl(ncclResult_t code, const char* what) {
  if (code != ncclSuccess && code != ncclInProgress) {
    fail(fmt::format("{}: {} ({})", what, ncclGetErrorString(code), ncclGetLastError(comm)));
  }
}

bool Gpu::idle(const char* what) {
  ncclResult_t state = ncclSuccess;
  nccl(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError");
  nccl(state, what);
  return state == ncclSuccess;
}

void Gpu::enqueue(const Call& call, ncclResult_t code) {
  nccl(code, call.what);
  wait(call, [&] { return idle(call.what); });
}

void Gpu::fail(const std::string& what) {
  group->mark_failed(what);
  stop();
  throw CommError("rank {}: {}", group->rank(), what);
}

void Gpu::stop() noexcept {
  if (comm != nullptr) ncclCommAbort(comm);
  comm = nullptr;
}

void Gpu::wait(const Call& call, const std::function<bool()>& finished) {
  try {
    group->wait(call, finished);
  } catch (...) {
    stop();
    throw;
  }
}

Event::Event(Gpu& gpu) {
  const CurrentGpu current(gpu);
  gpu.cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
}

CurrentGpu::CurrentGpu(Gpu& gpu) {
  gpu.cuda(cudaGetDevice(&before_), "cudaGetDevice");
  if (before_ != gpu.index) gpu.cuda(cudaSetDevice(gpu.index), "cudaSetDevice");
  changed_ = before_ != gpu.index;
}

}  // namespace foretime::comm
