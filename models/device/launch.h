#pragma once

#include <cstdint>
#include <string>
#include <typeinfo>
#include <vector>

#include <torch/types.h>

/// Runs bodies (bodies.h) for all their items: on a GPU as a kernel, which NVRTC compiles for that very GPU when it is
/// first asked for, on the CPU in a loop.
namespace foretime::device {

/// Whether tensors on `device` go to these bodies, and plans are laid out for them (32-bit row pointers, lists of long
/// rows): all but the CPU's, whose kernels are those of inference/kernels.
bool uses_bodies(torch::Device device);

/// While it lives, the CPU's tensors go to the bodies too. For tests: what a GPU would run runs here.
class BodiesOnCpu {
 public:
  BodiesOnCpu();
  ~BodiesOnCpu();
  BodiesOnCpu(const BodiesOnCpu&) = delete;
  BodiesOnCpu& operator=(const BodiesOnCpu&) = delete;
};

/// How many bodies have been run since the process began; each is one kernel on a GPU.
int64_t launches();

/// A type as C++ spells it.
std::string type_name(const std::type_info& type);

/// The names of all bodies, for numbers of `type` (kFloat or kDouble).
std::vector<std::string> body_names(torch::ScalarType type);
/// Of their kernels, in the same order.
std::vector<std::string> kernel_names(torch::ScalarType type);

/// Source of the bodies, and of the kernel that runs them.
const char* body_source();

namespace detail {
void check_items(int64_t items);
void count_launch();
/// On the current stream of the GPU. Throws ModelError where there is none in this build, or where NVRTC or the driver
/// refuses.
void launch_on_gpu(torch::Device device, const std::string& type, const void* body, int64_t items);
}  // namespace detail

template <class Body>
void for_each(torch::Device device, const Body& body, int64_t items) {
  detail::check_items(items);
  if (items == 0) return;
  detail::count_launch();
  if (!device.is_cpu()) return detail::launch_on_gpu(device, type_name(typeid(Body)), &body, items);
#pragma omp parallel for schedule(static) if (items > 4096)
  for (int64_t item = 0; item < items; ++item) body(static_cast<int>(item));
}

}  // namespace foretime::device
