#pragma once

#include <optional>
#include <string>
#include <vector>

namespace foretime::jobs {

/// Identifies a GPU by the names that CUDA_VISIBLE_DEVICES accepts.
struct Gpu {
  int index = 0;                      // number in the driver's list
  std::string uuid;                   // GPU-…; empty if unknown
  std::vector<std::string> mig = {};  // UUIDs of its MIG devices, MIG-…
};

/// Returns the NVIDIA GPUs of this machine according to its driver: from NVML if libnvidia-ml.so.1 can be opened,
/// otherwise from /proc/driver/nvidia. Empty without a driver.
std::vector<Gpu> find_gpus();

/// Throws JobsError if one of `ids` matches none or several of `gpus`; the message lists `gpus`. An id is an index, or
/// a UUID that begins with GPU- or MIG-, whose end may be missing.
void check_gpus(const std::vector<std::string>& ids, const std::vector<Gpu>& gpus);

}  // namespace foretime::jobs
