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

/// NCCL's communicator and stream on one GPU. Non-blocking: a call may return before its work has reached the stream,
/// and no other call may follow until `idle`. Shared with every Work.
struct Gpu {
  Gpu(std::shared_ptr<MpiGroup> group, int index);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  /// Makes it the GPU of this thread, and leaves it so: a rank computes on one GPU alone, and to set back the GPU that
  /// a thread begins with, number 0, would make a context there, of some 500 MiB.
  void make_current();
  void cuda(cudaError_t code, const char* what);
  void nccl(ncclResult_t code, const char* what);
  /// True when the last call is through; throws the errors that NCCL has met since, here or on a peer.
  bool idle(const char* what);
  [[noreturn]] void fail(const std::string& what);
  /// Drains the stream and finalises NCCL, each with a time limit; what is stuck is aborted. All ranks call it.
  void finish() noexcept;
  /// Ends kernels that wait for a peer; without it the process could not leave the GPU. Takes 20 s at most, or the time
  /// limit of a collective where that is less.
  void stop() noexcept;
  /// Checks the result of a call that enqueues work, and returns when the work has reached the stream.
  void enqueue(const Call& call, ncclResult_t code);
  /// MpiGroup::wait, and an end of NCCL's work if it throws.
  void wait(const Call& call, const std::function<bool()>& finished);

  /// True when the GPU has done with it; throws where it failed or NCCL was ended.
  bool poll(const Enqueued& work);
  /// Blocks the host, so that a stuck peer is noticed here and not in some later kernel. Its tensors may go then.
  void wait(Enqueued& work);
  /// Lets LibTorch's current stream wait for it, and keeps its tensors until it is done.
  void order(const std::shared_ptr<Enqueued>& work);
  /// Waits for all work that was ordered.
  void settle();

  std::shared_ptr<MpiGroup> group;
  const int index;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::deque<std::shared_ptr<Enqueued>> ordered;  // that was not seen to be done
  std::vector<torch::Tensor> abandoned;           // of work that nobody waited for: the GPU may still use them
};

/// A CUDA event without timing. It belongs to the GPU that is current when it is made, and only streams of that one can
/// record it: threads of the autograd engine and the loader's may have another.
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

/// One collective on NCCL's stream. Tensors that it reads or writes are kept until the GPU has been seen to be done
/// with them: their memory may then be reused on any stream, so none need be recorded with LibTorch's allocator.
struct Enqueued {
  Enqueued(Gpu& gpu, Call c, std::vector<torch::Tensor> t)
      : call(c), tensors(std::move(t)), inputs_ready(gpu), done(gpu) {}

  Call call;
  std::vector<torch::Tensor> tensors;
  Event inputs_ready, done;
  bool waited = false;   // seen to be done
  bool ordered = false;  // Gpu::ordered has it
};

/// `what: CUDA's text for the code`.
std::string cuda_text(const char* what, cudaError_t code);

}  // namespace foretime::comm
