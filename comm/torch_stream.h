#pragma once

#include <functional>
#include <memory>

#include <c10/core/Device.h>

namespace foretime::comm {

/// The part of comm/ that depends on LibTorch's CUDA. Tests replace it by a simulated device (tests/comm/standin/).

/// Returns whether this LibTorch has CUDA, even without a GPU.
bool torch_built_with_cuda();
/// Returns whether LibTorch can compute on a GPU of this machine.
bool torch_has_cuda();
/// Returns the number of GPUs that LibTorch can compute on, 0 without CUDA; makes no CUDA context.
int torch_gpus();
/// Returns LibTorch's device for the GPU with CUDA's number `gpu`.
c10::Device torch_gpu(int gpu);
/// Returns LibTorch's current stream (a cudaStream_t) of this thread on `gpu`; null without CUDA.
void* torch_current_stream(int gpu);
/// Makes `gpu` the current GPU of LibTorch and CUDA on this thread; does nothing without CUDA.
void torch_set_gpu(int gpu);
/// Runs `body` with `gpu` current and with LibTorch's operations on `stream` (a cudaStream_t), then restores the former
/// GPU and stream. Allocations of `body` belong to `stream`. Without CUDA only calls `body`.
void torch_on_stream(void* stream, int gpu, const std::function<void()>& body);
/// Measures the time that LibTorch's current stream spends between two points, without waiting for the stream.
class StreamTimer {
 public:
  virtual ~StreamTimer() = default;
  /// Marks the first point on LibTorch's current stream of this thread.
  virtual void begin() = 0;
  /// Marks the second point on the current stream; begin() must precede end().
  virtual void end() = 0;
  /// Returns the seconds between the last pair of points that the stream has passed; 0 before the first pair.
  virtual double seconds() = 0;
};
/// Makes a timer for `gpu`, which must be current; null without CUDA.
std::unique_ptr<StreamTimer> make_stream_timer(int gpu);

}  // namespace foretime::comm
