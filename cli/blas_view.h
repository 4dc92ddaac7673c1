#pragma once

#include <istream>
#include <string>

namespace foretime::cli {

/// The file of the BLAS that LibTorch computes with on the CPU, from a process's mappings (/proc/self/maps); empty
/// where none is mapped, as with a LibTorch that has its own inside. CUDA's libraries of that name are for GPUs.
std::string mapped_blas(std::istream& maps);

}  // namespace foretime::cli
