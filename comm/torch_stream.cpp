#include "comm/torch_stream.h"

#ifdef FORETIME_TORCH_CUDA
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "comm/event_timer.h"
#endif

#include <torch/cuda.h>
#include <torch/types.h>

namespace foretime::comm {

c10::Device torch_gpu(int gpu) { return c10::Device(torch::kCUDA, gpu); }

#ifdef FORETIME_TORCH_CUDA

bool torch_built_with_cuda() { return true; }
bool torch_has_cuda() { return torch::cuda::is_available(); }
int torch_gpus() { return torch::cuda::device_count(); }
void* torch_current_stream(int gpu) { return c10::cuda::getCurrentCUDAStream(gpu).stream(); }
void torch_set_gpu(int gpu) { c10::cuda::set_device(gpu); }

void torch_on_stream(void* stream, int gpu, const std::function<void()>& body) {
  const auto external = c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), gpu);
  const c10::cuda::CUDAStreamGuard guard(external);
  body();
}
std::unique_ptr<StreamTimer> make_stream_timer(int gpu) { return std::make_unique<EventTimer>(gpu); }

#else

bool torch_built_with_cuda() { return false; }
bool torch_has_cuda() { return false; }
int torch_gpus() { return 0; }
void* torch_current_stream(int) { return nullptr; }
void torch_set_gpu(int) {}
void torch_on_stream(void*, int, const std::function<void()>& body) { body(); }
std::unique_ptr<StreamTimer> make_stream_timer(int) { return nullptr; }

#endif

}  // namespace foretime::comm
