#pragma once

#include <cstdint>

namespace foretime::cli {

/// Give the bytes that programs map before main begins, without OpenBLAS' buffers.
inline constexpr uint64_t kLightProgramBytes = uint64_t{112} << 20, kFullProgramBytes = uint64_t{1} << 30;

/// Returns how many bytes a process of this machine must be allowed to map (ulimit -v). OpenBLAS maps a buffer for each
/// of its threads before main begins, and retries forever if that fails. `environment` may set the number of threads.
/// Safe before any library is initialised.
uint64_t least_address_space(uint64_t program_bytes, char** environment);

/// Returns the limit of address space in bytes; UINT64_MAX for none.
uint64_t address_space_limit();

}  // namespace foretime::cli
