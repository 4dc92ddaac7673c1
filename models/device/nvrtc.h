#pragma once

#include <string>
#include <vector>

/// CUDA's run-time compiler and driver, found when they are first used: builds need neither, and a program that trains
/// on the CPU never looks for them.
namespace foretime::device {

/// A program for one kind of GPU.
struct CompiledKernels {
  std::string code;                // a cubin
  std::vector<std::string> names;  // of the kernels in it, in the order in which they were asked for
};

/// Compiles CUDA C++. `kernels`: their names as C++ spells them, template arguments included. `architecture`: such as
/// sm_90. Throws ModelError with NVRTC's log, or where there is no NVRTC.
CompiledKernels compile_kernels(const char* source, const std::vector<std::string>& kernels,
                                const std::string& architecture);

/// Whether libnvrtc is on this machine.
bool has_nvrtc();

/// The driver's handle of a kernel.
using KernelHandle = void*;

/// Loads a program into the current context; the handles of its kernels, in their order. Throws ModelError with the
/// driver's message.
std::vector<KernelHandle> load_kernels(const CompiledKernels& kernels);

/// sm_90 and so on, of a GPU by its number among those that this process sees.
std::string architecture_of(int gpu);

/// Queues the kernel: `blocks` of `threads`, its arguments by their addresses. Throws ModelError.
void launch(KernelHandle kernel, unsigned blocks, unsigned threads, void* stream, void** arguments);

}  // namespace foretime::device
