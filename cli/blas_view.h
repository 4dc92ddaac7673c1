#pragma once

#include <string>

namespace foretime::cli {

/// Returns the path of the BLAS library that LibTorch uses on the CPU, from the text of a process's mappings
/// (/proc/self/maps); empty if none is mapped, as with a LibTorch that contains its BLAS. CUDA's libraries of that name
/// are for GPUs.
std::string mapped_blas(const std::string& maps);

}  // namespace foretime::cli
