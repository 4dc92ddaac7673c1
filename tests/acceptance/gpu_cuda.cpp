#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "tests/acceptance/gpu.h"

namespace foretime::acceptance {

std::vector<std::pair<std::string, std::string>> gpu_facts() {
  int driver = 0, runtime = 0, count = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const auto version = [](int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); };
  std::vector<std::pair<std::string, std::string>> facts = {
      {"CUDA", fmt::format("runtime {}, built with {}, driver for {}", version(runtime), version(CUDART_VERSION),
                           version(driver))}};
  const auto found = cudaGetDeviceCount(&count);
  if (found != cudaSuccess || count == 0) {
    facts.emplace_back("GPU", fmt::format("no GPU ({})", cudaGetErrorString(found)));
    return facts;
  }
  cudaDeviceProp properties;
  if (const auto code = cudaGetDeviceProperties(&properties, 0); code != cudaSuccess) {
    facts.emplace_back("GPU", cudaGetErrorString(code));
    return facts;
  }
  facts.emplace_back(
      "GPU", fmt::format("{}, sm_{}{}, {} multiprocessors, {:.1f} GiB, {:.0f} MB of L2, {} visible", properties.name,
                         properties.major, properties.minor, properties.multiProcessorCount,
                         static_cast<double>(properties.totalGlobalMem) / (1 << 30),
                         static_cast<double>(properties.l2CacheSize) / 1e6, count));
  return facts;
}

void forget_gpu_peak() {
  torch::zeros({1}, torch::kCUDA);  // LibTorch knows the GPU from its first use on
  c10::cuda::CUDACachingAllocator::resetPeakStats(c10::cuda::current_device());
}

int64_t gpu_peak_bytes() {
  // Of all pools together, which LibTorch counts under 0.
  return c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device()).allocated_bytes[0].peak;
}

NoWaits::NoWaits() : before_(static_cast<int>(c10::cuda::warning_state().get_sync_debug_mode())) {
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR);
}
NoWaits::~NoWaits() { c10::cuda::warning_state().set_sync_debug_mode(static_cast<c10::cuda::SyncDebugMode>(before_)); }

}  // namespace foretime::acceptance
