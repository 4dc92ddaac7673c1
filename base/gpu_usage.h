#pragma once

#include <optional>

namespace foretime {

/// Describes the load of a GPU by all its processes.
struct GpuUsage {
  double percent = 0;     // fraction of the last sampling period in which a kernel ran
  double memory_mib = 0;  // allocated memory
};

/// Returns the usage, by the driver's library, of the NVIDIA GPU with CUDA's number `index` in this process. Empty if
/// this process has no CUDA, or the driver has no data.
std::optional<GpuUsage> gpu_usage(int index);

}  // namespace foretime
