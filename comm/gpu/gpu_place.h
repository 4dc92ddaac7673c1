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
/// Serialises a place for other ranks.
std::string to_bytes(const GpuPlace& place);
/// Parses the result of to_bytes.
GpuPlace gpu_place_of(const std::string& bytes);

/// Returns the reason if two of the ranks name the same GPU of the same machine; "" if each has its own. Machines are
/// distinguished by their kernels, or by their names if a kernel is unknown.
std::string shared_gpu(const std::vector<GpuPlace>& places);

}  // namespace foretime::comm
