#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace foretime::data {

/// What a GPU's programs are held against. Names are those of the CUDA C++ Programming Guide; of AMD's GPUs a
/// multiprocessor is a compute unit, a warp a wavefront, and shared memory the local data share.
struct GpuLimits {
  int64_t multiprocessors = 0;  // 0: no GPU
  int64_t warp_size = 32;       // threads
  int64_t threads_per_block = 1024, shared_bytes_per_block = 48 << 10;
  int64_t threads_per_multiprocessor = 2048, blocks_per_multiprocessor = 32;
  int64_t registers_per_multiprocessor = 65536, registers_per_thread = 255;  // of 32 bits
  int64_t shared_bytes_per_multiprocessor = 96 << 10;

  bool operator==(const GpuLimits&) const = default;
};

/// One kind of GPU: its limits, and rates that its makers state.
struct GpuArchitecture {
  std::string_view name;  // -arch= of a CUDA target, -mcpu= of a ROCm target
  GpuLimits limits;
  int64_t lanes = 64;  // float32 multiply-adds that a multiprocessor starts in a cycle
  double ghz = 1.4;
  double gb_s = 900.0;  // of its memory
  int64_t l1_bytes = 128 << 10, l2_bytes = 6 << 20;
};

/// Whether a TVM target is a GPU's: of kind cuda, rocm, opencl, metal, vulkan or webgpu, or with `gpu` among its -keys.
bool is_gpu_target(std::string_view target);

/// The architecture that a GPU target names, of those that are known here; null where it names none.
const GpuArchitecture* named_architecture(std::string_view target);
/// What is known of a GPU target: the architecture that it names, and otherwise that of a common GPU of its maker: a
/// V100 of NVIDIA's, an MI50 of AMD's. Limits of an architecture are those of the table "Technical Specifications per
/// Compute Capability" in the CUDA C++ Programming Guide; how many multiprocessors and how much bandwidth an
/// architecture's GPU has differs from card to card, and is that of a well-known one (machine files say better).
const GpuArchitecture& architecture_of_target(std::string_view target);

/// The number behind an option (`-max_num_threads=1024`) of a target; empty where it has none.
std::optional<int64_t> target_number(std::string_view target, std::string_view option);

}  // namespace foretime::data
