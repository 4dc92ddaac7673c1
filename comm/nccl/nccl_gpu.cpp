#include "comm/nccl/nccl_gpu.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm/communicator.h"
#include "comm/torch_stream.h"

namespace foretime::comm {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kShutdownLimit{30.0};
constexpr Seconds kAbortLimit{20.0};

template <class Finished>
bool comes_true(Finished&& finished, Seconds limit = kShutdownLimit) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
  while (!finished()) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Aborts a communicator. ncclCommAbort can hang for ever (https://github.com/NVIDIA/nccl/issues/1013), as can the end
/// of a process whose GPU it has not freed. After `limit` the caller continues, and CUDA's destructors will not run.
void abort_in_time(ncclComm_t comm, int index, Seconds limit) {
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  std::thread([comm, index, ended] {
    cudaSetDevice(index);
    ncclCommAbort(comm);
    ended->store(true);
  }).detach();
  if (comes_true([&] { return ended->load(); }, limit)) return;
  on_exit(
      [](int code, void*) {
        std::fflush(nullptr);
        _exit(code);
      },
      nullptr);
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

void Gpu::make_current() {
  int before = 0;
  cuda(cudaGetDevice(&before), "cudaGetDevice");
  if (before != index) cuda(cudaSetDevice(index), "cudaSetDevice");
}

void Gpu::cuda(cudaError_t code, const char* what) {
  if (code != cudaSuccess) fail(cuda_text(what, code));
}

void Gpu::nccl(ncclResult_t code, const char* what) {
  if (code != ncclSuccess && code != ncclInProgress)
    fail(fmt::format("{}: {} ({})", what, ncclGetErrorString(code), ncclGetLastError(comm)));
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
  if (comm == nullptr) return;
  try {
    abort_in_time(std::exchange(comm, nullptr), index, std::min<Seconds>(kAbortLimit, group->timeout()));
  } catch (const std::exception&) {  // no thread can be started: the process is about to end all the same
  }
}

void Gpu::wait(const Call& call, const std::function<bool()>& finished) {
  try {
    group->wait(call, finished);
  } catch (...) {
    stop();
    throw;
  }
}

bool Gpu::poll(const Enqueued& work) {
  if (work.waited) return true;
  if (comm == nullptr) throw CommError("rank {}: {} was aborted", group->rank(), work.call.text());
  idle(work.call.what);
  const auto state = cudaEventQuery(work.done.get());
  if (state == cudaErrorNotReady) return false;
  cuda(state, work.call.what);
  return true;
}

void Gpu::wait(Enqueued& work) {
  if (work.waited) return;
  wait(work.call, [&] { return poll(work); });
  work.waited = true;
  work.tensors.clear();
}

void Gpu::order(const std::shared_ptr<Enqueued>& work) {
  while (!ordered.empty() && poll(*ordered.front())) {
    wait(*ordered.front());
    ordered.pop_front();
  }
  if (work->waited || std::exchange(work->ordered, true)) return;
  make_current();
  const auto compute = static_cast<cudaStream_t>(torch_current_stream(index));
  cuda(cudaStreamWaitEvent(compute, work->done.get(), 0), "cudaStreamWaitEvent");
  ordered.push_back(work);
}

void Gpu::settle() {
  for (; !ordered.empty(); ordered.pop_front()) wait(*ordered.front());
}

Event::Event(Gpu& gpu) {
  gpu.make_current();
  gpu.cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
}

}  // namespace foretime::comm
