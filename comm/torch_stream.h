#pragma once

namespace foretime::comm {

/// The only place of comm/ that depends on whether LibTorch was built with CUDA.

/// True where LibTorch can compute on a GPU of this machine.
bool torch_has_cuda();
/// The stream (a cudaStream_t) that LibTorch computes on, on this thread; null, CUDA's default stream, without CUDA.
void* torch_current_stream(int gpu);
/// Makes `gpu` the one that LibTorch and CUDA use on this thread.
void torch_set_gpu(int gpu);

}  // namespace foretime::comm
