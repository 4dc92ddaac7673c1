#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace foretime::data {

/// Holds the limits of a GPU. Names follow the CUDA C++ Programming Guide; on AMD's GPUs a multiprocessor is a compute
/// unit, a warp a wavefront, and shared memory the local data share.
struct GpuLimits {
  int64_t multiprocessors = 0;  // number of multiprocessors; 0: no GPU
  int64_t warp_size = 32;       // threads of a warp
  int64_t threads_per_block = 1024, shared_bytes_per_block = 48 << 10;
  int64_t threads_per_multiprocessor = 2048, blocks_per_multiprocessor = 32;
  int64_t registers_per_multiprocessor = 65536, registers_per_thread = 255;  // 32-bit registers
  int64_t shared_bytes_per_multiprocessor = 96 << 10;

  bool operator==(const GpuLimits&) const = default;
};

/// Describes a GPU architecture: its limits, and the rates that its vendor states.
struct GpuArchitecture {
  std::string_view name;  // value of -arch= in a CUDA target, of -mcpu= in a ROCm target
  GpuLimits limits;
  int64_t lanes = 64;                                // float32 multiply-adds that a multiprocessor starts in a cycle
  double ghz = 1.4;                                  // clock
  double gb_s = 900.0;                               // bandwidth of global memory in 10^9 bytes per second
  int64_t l1_bytes = 128 << 10, l2_bytes = 6 << 20;  // first-level cache of a multiprocessor, second-level cache
};

/// Returns whether a TVM target is a GPU: it starts with cuda, rocm, opencl, metal, vulkan or webgpu, or has -keys with
/// gpu.
bool is_gpu_target(std::string_view target);

/// Returns the architecture that a GPU target names by -arch= or -mcpu=; null if it names none or an unknown one.
const GpuArchitecture* named_architecture(std::string_view target);
/// Returns the architecture of a GPU target: the named one, or else that of a common GPU of the vendor: NVIDIA's V100
/// or AMD's MI50. Limits are from the table "Technical Specifications per Compute Capability" in the CUDA C++
/// Programming Guide. The number of multiprocessors and the bandwidth differ between cards of an architecture; the
/// table has those of a well-known card (machine files are more exact).
const GpuArchitecture& architecture_of_target(std::string_view target);

/// Returns the whole number behind an option of a target: 1024 for `-max_num_threads` in `-max_num_threads=1024`. Empty
/// if the target lacks the option or its value is not a number.
std::optional<int64_t> target_number(std::string_view target, std::string_view option);

}  // namespace foretime::data
