#pragma once

#include <optional>
#include <string>
#include <vector>

namespace foretime::jobs {

/// A GPU as CUDA_VISIBLE_DEVICES may name it.
struct Gpu {
  int index = 0;
  std::string uuid;                   // GPU-…; empty where it is not known
  std::vector<std::string> mig = {};  // UUIDs of its MIG devices, MIG-…
};

/// The NVIDIA GPUs of this machine, as its driver tells them: by NVML (libnvidia-ml.so.1, opened where it is there),
/// else by /proc/driver/nvidia. Empty where there is no driver.
std::vector<Gpu> find_gpus();

/// Throws JobsError where one of `ids` names none of `gpus`, or several: with those that there are. An id is an index,
/// a UUID or the beginning of one, or a MIG device's UUID.
void check_gpus(const std::vector<std::string>& ids, const std::vector<Gpu>& gpus);

}  // namespace foretime::jobs
