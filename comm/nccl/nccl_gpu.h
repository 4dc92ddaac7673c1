#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime.h>
#include <nccl.h>
#include <torch/types.h>

#include "base/no_copy.h"
#include "comm/mpi/mpi_group.h"

namespace foretime::comm {

struct Enqueued;

/// Holds NCCL's communicator and stream on one GPU. The communicator is non-blocking: a call may return before its work
/// has reached the stream, and no other call may follow until idle() returns true.
struct Gpu : NoCopy {
  /// `index` is CUDA's number of the GPU. The caller sets `comm` and `stream`.
  Gpu(std::shared_ptr<MpiGroup> group, int index);
  ~Gpu();

  /// Makes this GPU the current one of this thread for good: going back to GPU 0 would make a context of 500 MiB there.
  void make_current();
  /// Throws CommError, naming the call `what`, if `code` is an error of CUDA.
  void cuda(cudaError_t code, const char* what);
  /// Throws CommError, naming the call `what`, if `code` is an error of NCCL.
  void nccl(ncclResult_t code, const char* what);
  /// Returns whether NCCL's last call, `what`, is complete. Throws CommError for errors found meanwhile on any rank.
  bool idle(const char* what);
  /// Marks the group as failed, ends NCCL's work as stop() does, and throws CommError with the text `what`.
  [[noreturn]] void fail(const std::string& what);
  /// Waits for the stream and finalises NCCL, at most 30 s each; then aborts stuck work. All ranks call it.
  void finish() noexcept;
  /// Aborts NCCL's work, which could keep the process from ending. Takes at most 20 s and a call's time limit.
  void stop() noexcept;
  /// Returns when the work of the NCCL call with result `code` is in the stream. Throws CommError if the call failed.
  void enqueue(const Call& call, ncclResult_t code);
  /// Waits by MpiGroup::wait until `finished` returns true; ends NCCL's work if that throws.
  void wait(const Call& call, const std::function<bool()>& finished);

  /// Returns whether the GPU has finished the work. Throws CommError if the work failed or stop() was called before.
  bool poll(const Enqueued& work);
  /// Blocks the host until the work is done, then releases its tensors. Throws the errors of poll() and MpiGroup::wait.
  void wait(Enqueued& work);
  /// Makes LibTorch's current stream, but not the host, wait for the work. Keeps the work's tensors until it is done.
  void order(const std::shared_ptr<Enqueued>& work);
  /// Blocks the host until all work that order() was called for is done; throws as wait(Enqueued&) does.
  void settle();

  std::shared_ptr<MpiGroup> group;
  const int index;                                // CUDA's number of the GPU
  ncclComm_t comm = nullptr;                      // null after finish() or stop()
  cudaStream_t stream = nullptr;                  // stream of all NCCL calls
  std::deque<std::shared_ptr<Enqueued>> ordered;  // work of order() that the host does not know to be done
  std::vector<torch::Tensor> abandoned;  // tensors of work that was not waited for, which the GPU may still use
};

/// Holds a CUDA event without timing on a GPU, which becomes current. Only streams of that GPU can record the event.
class Event : NoCopy {
 public:
  explicit Event(Gpu& gpu);
  ~Event() { cudaEventDestroy(event_); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Holds one collective on NCCL's stream, and its tensors until the GPU is known to have finished with them.
struct Enqueued {
  Enqueued(Gpu& gpu, Call c, std::vector<torch::Tensor> t)
      : call(c), tensors(std::move(t)), inputs_ready(gpu), done(gpu) {}

  Call call;
  std::vector<torch::Tensor> tensors;
  Event inputs_ready, done;  // recorded before the collective on the compute stream, after it on NCCL's
  bool waited = false;       // the host knows that the collective is done
  bool ordered = false;      // Gpu::order() was called
};

/// Returns "WHAT: TEXT" with CUDA's text for `code`.
std::string cuda_text(const char* what, cudaError_t code);

}  // namespace foretime::comm
