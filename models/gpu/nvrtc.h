#pragma once

#include <string>
#include <vector>

/// CUDA's run-time compiler and driver, loaded at first use: neither builds nor training on the CPU need them.
namespace foretime::gpu {

/// Holds a program that is compiled for one kind of GPU.
struct CompiledKernels {
  std::string code;                // cubin
  std::vector<std::string> names;  // [kernels] names of the kernels in `code`, in the order of the request
};

/// Compiles the CUDA C++ program `source`. `kernels` holds C++ names of its kernels, with template arguments;
/// `architecture` is for example sm_90. Throws ModelError with NVRTC's log, or if NVRTC is not installed.
CompiledKernels compile_kernels(const char* source, const std::vector<std::string>& kernels,
                                const std::string& architecture);

/// Returns whether libnvrtc can be loaded.
bool has_nvrtc();

/// The driver's handle of a kernel.
using KernelHandle = void*;

/// Loads a program into the current context until the process ends, and returns the handles of its kernels in order.
/// Throws ModelError with the driver's message, or if there is no driver.
std::vector<KernelHandle> load_kernels(const CompiledKernels& kernels);

/// Returns the architecture, such as sm_90, of GPU number `gpu` of those that the process sees. Throws ModelError.
std::string architecture_of(int gpu);

/// Queues a kernel of `blocks` blocks of `threads` threads on `stream` (a CUstream). `arguments` holds the addresses of
/// the kernel's arguments. Throws ModelError with the driver's message.
void launch(KernelHandle kernel, unsigned blocks, unsigned threads, void* stream, void** arguments);

}  // namespace foretime::gpu
