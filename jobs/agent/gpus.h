#pragma once

#include <optional>
#include <string>
#include <vector>

namespace foretime::jobs {

/// Identifies a GPU by the names that CUDA_VISIBLE_DEVICES accepts.
struct Gpu {
  int index = 0;
  std::string uuid;                   // GPU-…; empty if unknown
  std::vector<std::string> mig = {};  // UUIDs of its MIG devices, MIG-…
};

/// Returns the NVIDIA GPUs of this machine according to its driver: from NVML if libnvidia-ml.so.1 can be opened,
/// otherwise from /proc/driver/nvidia. Empty without a driver.
std::vector<Gpu> find_gpus();

/// Throws JobsError if one of `ids` matches none of `gpus` or several; the message lists `gpus`. An id is an index, a
/// UUID or its beginning, or the UUID of a MIG device.
void check_gpus(const std::vector<std::string>& ids, const std::vector<Gpu>& gpus);

}  // namespace foretime::jobs
