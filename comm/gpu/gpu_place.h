#pragma once

#include <string>
#include <vector>

namespace foretime::comm {

/// Identifies the GPU of a rank.
struct GpuPlace {
  std::string bus{};   // PCI address, which is unique within a host only
  std::string host{};  // host name, which containers and cloned images may share
  std::string boot{};  // boot_id() of the host's kernel (base/process.h); "": unknown
};
/// Returns a place as text for gpu_place_of on other ranks.
std::string to_bytes(const GpuPlace& place);
/// Parses the result of to_bytes.
GpuPlace gpu_place_of(const std::string& bytes);

/// Returns a message that names the first two ranks with the same GPU of the same machine; "" if each rank has its own
/// GPU. `places` is by rank. Machines are distinguished by `boot`, or by `host` if `boot` of either place is unknown.
std::string shared_gpu(const std::vector<GpuPlace>& places);

}  // namespace foretime::comm
