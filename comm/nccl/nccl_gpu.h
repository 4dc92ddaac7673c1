#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime.h>
#include <nccl.h>
#include <torch/types.h>

#include "comm/mpi/mpi_group.h"

namespace foretime::comm {

struct Enqueued;

/// Holds NCCL's communicator and stream on one GPU. The communicator is non-blocking: a call may return before its work
/// has reached the stream, and no other call may follow until `idle`. Each Work shares the object.
struct Gpu {
  Gpu(std::shared_ptr<MpiGroup> group, int index);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  /// Makes it the current GPU of this thread, permanently: a rank computes on one GPU alone, and switching back to GPU
  /// 0, with which a thread begins, would make a context of some 500 MiB there.
  void make_current();
  /// Throws CommError, naming the call `what`, if `code` is an error of CUDA.
  void cuda(cudaError_t code, const char* what);
  /// Throws CommError, naming the call `what`, if `code` is an error of NCCL.
  void nccl(ncclResult_t code, const char* what);
  /// Returns whether the last call is complete; throws the errors that NCCL has found since, here or on a peer.
  bool idle(const char* what);
  [[noreturn]] void fail(const std::string& what);
  /// Drains the stream and finalises NCCL, each with a time limit; stuck work is aborted. All ranks call it.
  void finish() noexcept;
  /// Ends kernels that wait for a peer, because the process could not leave the GPU otherwise. Takes at most 20 s, or
  /// the time limit of a collective if that is less.
  void stop() noexcept;
  /// Checks the result of a call that enqueues work, and returns when the work has reached the stream.
  void enqueue(const Call& call, ncclResult_t code);
  /// Waits by MpiGroup::wait, and ends NCCL's work if that throws.
  void wait(const Call& call, const std::function<bool()>& finished);

  /// Returns whether the GPU has finished the work; throws if it failed or NCCL was ended.
  bool poll(const Enqueued& work);
  /// Blocks the host until the work is done, so that a stuck peer is noticed here and not in a later kernel, and then
  /// releases the work's tensors.
  void wait(Enqueued& work);
  /// Makes LibTorch's current stream wait for the work, and keeps its tensors until it is done.
  void order(const std::shared_ptr<Enqueued>& work);
  /// Waits for all work that was ordered.
  void settle();

  std::shared_ptr<MpiGroup> group;
  const int index;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::deque<std::shared_ptr<Enqueued>> ordered;  // work whose end has not been seen
  std::vector<torch::Tensor> abandoned;  // tensors of work that was not waited for, which the GPU may still use
};

/// Holds a CUDA event without timing. It belongs to the GPU that is current at its construction, and only streams of
/// that GPU can record it: threads of the autograd engine and the loader may have another.
class Event {
 public:
  explicit Event(Gpu& gpu);
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Holds one collective on NCCL's stream. Its tensors are kept until the GPU is known to have finished with them. Their
/// memory may then be reused on any stream, so it need not be recorded with LibTorch's allocator.
struct Enqueued {
  Enqueued(Gpu& gpu, Call c, std::vector<torch::Tensor> t)
      : call(c), tensors(std::move(t)), inputs_ready(gpu), done(gpu) {}

  Call call;
  std::vector<torch::Tensor> tensors;
  Event inputs_ready, done;
  bool waited = false;   // known to be done
  bool ordered = false;  // contained in Gpu::ordered
};

/// Returns `what: CUDA's text for the code`.
std::string cuda_text(const char* what, cudaError_t code);

}  // namespace foretime::comm
