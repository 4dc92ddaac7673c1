#include "comm/torch_stream.h"

#ifdef FORETIME_TORCH_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

#include <torch/torch.h>

namespace foretime::comm {

#ifdef FORETIME_TORCH_CUDA

bool torch_has_cuda() { return torch::cuda::is_available(); }
void* torch_current_stream(int gpu) {
  return at::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(gpu)).stream();
}
void torch_set_gpu(int gpu) { c10::cuda::set_device(static_cast<c10::DeviceIndex>(gpu)); }

#else

bool torch_has_cuda() { return false; }
void* torch_current_stream(int) { return nullptr; }
void torch_set_gpu(int) {}

#endif

}  // namespace foretime::comm
