#pragma once

#include <cstdint>

namespace foretime::cli {

/// The bytes that the light and the full program map before main begins, without OpenBLAS' buffers.
inline constexpr uint64_t kLightProgramBytes = uint64_t{112} << 20, kFullProgramBytes = uint64_t{1} << 30;

/// Returns how many bytes of address space (ulimit -v) a process on this machine needs: `program_bytes`, and a buffer
/// for each thread of OpenBLAS, which retries forever if it cannot map one. The number of threads is that of the usable
/// cores, or less if a variable in `environment` says so. Safe before any library is initialised.
uint64_t least_address_space(uint64_t program_bytes, char** environment);

/// Returns the limit of this process's address space in bytes; UINT64_MAX if there is none.
uint64_t address_space_limit();

}  // namespace foretime::cli
