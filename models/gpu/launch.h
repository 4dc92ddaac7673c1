#pragma once

#include <cstdint>
#include <string>
#include <typeinfo>
#include <vector>

#include <torch/types.h>

#include "base/no_copy.h"

/// Runs kernel functors (*_kernels.h) for all items: on a GPU as kernels that NVRTC compiles, on the CPU in a loop.
namespace foretime::gpu {

/// Returns whether tensors on `device` use these kernels, and plans have the layout for them (32-bit row pointers,
/// lists of long rows). False for the CPU, which uses inference/kernels.
bool uses_gpu_kernels(torch::Device device);

/// Makes tensors on the CPU use these kernels for the duration of a scope, in all threads, so that tests run GPU code.
class GpuKernelsOnCpu : NoCopy {
 public:
  GpuKernelsOnCpu();
  ~GpuKernelsOnCpu();
};

/// Returns how many kernels for_each has run in this process: on GPUs, and on the CPU only under GpuKernelsOnCpu.
int64_t launches();

/// Returns the C++ name of a type, with its template arguments. Throws ModelError if the name cannot be decoded.
std::string type_name(const std::type_info& type);

/// Returns the type names of all kernel functors for numbers of `type` (kFloat or kDouble).
std::vector<std::string> kernel_functors(torch::ScalarType type);
/// Returns the C++ names of the kernels, for compile_kernels, in the order of kernel_functors.
std::vector<std::string> kernel_names(torch::ScalarType type);

/// Returns the CUDA C++ source of the functors and of the kernel that runs them.
const char* kernel_source();

namespace detail {
/// Throws ModelError for 2^31 items or more.
void check_items(int64_t items);
/// Adds 1 to launches().
void count_launch();
/// Queues the kernel of the functor type named `type` on the GPU's current stream. Throws ModelError if this build has
/// no GPU support, if kernel_functors lacks the type, or on an error of NVRTC or the driver.
void launch_on_gpu(torch::Device device, const std::string& type, const void* functor, int64_t items);
}  // namespace detail

/// Calls functor(item) for items 0 … `items` - 1, in any order. On a GPU it only queues the kernel. Throws ModelError
/// for 2^31 items or more, and as launch_on_gpu does.
template <class Body>
void for_each(torch::Device device, const Body& functor, int64_t items) {
  detail::check_items(items);
  if (items == 0) return;
  detail::count_launch();
  if (!device.is_cpu()) return detail::launch_on_gpu(device, type_name(typeid(Body)), &functor, items);
#pragma omp parallel for schedule(static) if (items > 4096)
  for (int64_t item = 0; item < items; ++item) functor(static_cast<int>(item));
}

}  // namespace foretime::gpu
