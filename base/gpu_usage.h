#pragma once

#include <optional>

namespace foretime {

/// How busy a GPU is, by whatever uses it.
struct GpuUsage {
  double percent = 0;     // of the last moment in which something ran on it
  double memory_mib = 0;  // in use
};

/// Of the NVIDIA GPU that CUDA calls `index` in this process, as the driver's library says. Empty where this process
/// has no CUDA, or the driver says nothing.
std::optional<GpuUsage> gpu_usage(int index);

}  // namespace foretime
