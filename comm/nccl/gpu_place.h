#pragma once

#include <string>
#include <vector>

namespace foretime::comm {

/// The GPU of a rank.
struct GpuPlace {
  std::string bus{};   // its PCI address, which repeats on every host
  std::string host{};  // name, which hosts may share: those of containers and of cloned images
  std::string boot{};  // boot_id() of its kernel (base/process.h); empty: not known
};
std::string to_bytes(const GpuPlace& place);
GpuPlace gpu_place_of(const std::string& bytes);

/// Why these ranks cannot have a GPU each: two of them name the same one of the same machine. Empty where they can.
/// Machines are told apart by their kernels, and by their names where one does not say.
std::string shared_gpu(const std::vector<GpuPlace>& places);

}  // namespace foretime::comm
