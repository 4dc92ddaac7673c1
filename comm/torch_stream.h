#pragma once

#include <functional>
#include <memory>

#include <c10/core/Device.h>

namespace foretime::comm {

/// The only place of comm/ that depends on whether LibTorch was built with CUDA. Tests put a device of their own in its
/// place (tests/comm/standin/).

/// True where this LibTorch has CUDA, whether there is a GPU or not.
bool torch_built_with_cuda();
/// True where LibTorch can compute on a GPU of this machine.
bool torch_has_cuda();
/// GPUs that LibTorch can compute on; makes no context on any.
int torch_gpus();
/// What LibTorch calls CUDA's GPU of this number.
c10::Device torch_gpu(int gpu);
/// The stream (a cudaStream_t) that LibTorch computes on, on this thread; null, CUDA's default stream, without CUDA.
void* torch_current_stream(int gpu);
/// Makes `gpu` the one that LibTorch and CUDA use on this thread.
void torch_set_gpu(int gpu);
/// Runs `body` with `gpu` current and with LibTorch's operations on `stream` (a cudaStream_t), and puts back both. What
/// the body allocates belongs to that stream; without CUDA it just runs.
void torch_on_stream(void* stream, int gpu, const std::function<void()>& body);
/// Time that LibTorch's current stream spends between two points. Nothing waits for it.
class StreamTimer {
 public:
  virtual ~StreamTimer() = default;
  virtual void begin() = 0;
  virtual void end() = 0;
  /// Of the last pair of points that the stream has passed; 0 before the first.
  virtual double seconds() = 0;
};
/// For `gpu`, which must be the current one; null without CUDA.
std::unique_ptr<StreamTimer> make_stream_timer(int gpu);

}  // namespace foretime::comm
