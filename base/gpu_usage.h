#pragma once

#include <optional>

namespace foretime {

/// Describes the load of a GPU by all its processes.
struct GpuUsage {
  double percent = 0;     // 0 to 100: share of the driver's last sampling period in which a kernel ran
  double memory_mib = 0;  // memory in use, MiB
};

/// Returns the usage that the driver reports for the NVIDIA GPU with CUDA's number `index` in this process. Returns
/// nullopt if this process has no CUDA or no such GPU, or the driver has no data.
std::optional<GpuUsage> gpu_usage(int index);

}  // namespace foretime
