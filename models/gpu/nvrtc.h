#pragma once

#include <string>
#include <vector>

/// CUDA's run-time compiler and driver, loaded at first use: builds need neither, and training on the CPU never loads
/// them.
namespace foretime::gpu {

/// Holds a program that is compiled for one kind of GPU.
struct CompiledKernels {
  std::string code;                // cubin
  std::vector<std::string> names;  // [kernels] lowered names of the kernels, in the order of the request
};

/// Compiles CUDA C++. `kernels` holds C++ names with template arguments; `architecture` is for example sm_90. Throws
/// ModelError with NVRTC's log, or if NVRTC is not installed.
CompiledKernels compile_kernels(const char* source, const std::vector<std::string>& kernels,
                                const std::string& architecture);

/// Returns whether libnvrtc can be loaded.
bool has_nvrtc();

/// The driver's handle of a kernel.
using KernelHandle = void*;

/// Loads a program into the current context, and returns the handles of its kernels in order. Throws ModelError with
/// the driver's message.
std::vector<KernelHandle> load_kernels(const CompiledKernels& kernels);

/// Returns the architecture, such as sm_90, of the GPU with this number among the GPUs that the process sees.
std::string architecture_of(int gpu);

/// Queues a kernel of `blocks` with `threads` each; `arguments` holds the addresses of its arguments. Throws
/// ModelError.
void launch(KernelHandle kernel, unsigned blocks, unsigned threads, void* stream, void** arguments);

}  // namespace foretime::gpu
