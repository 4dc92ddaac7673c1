#pragma once

#include <cstdint>
#include <string_view>

namespace foretime::data {

/// What the columns of program graphs take from the machine that the programs run on.
struct Hardware {
  int64_t vector_bytes = 64;      // of a vector register: 16 SSE and NEON, 32 AVX2, 64 AVX-512
  int64_t vector_registers = 32;  // 16 up to AVX2
  int64_t cores = 1;
  int64_t l1_bytes = 48 << 10, l2_bytes = 1 << 20;  // data caches of a core
  int64_t l3_bytes = 32 << 20;                      // shared by the cores

  bool operator==(const Hardware&) const = default;
};

/// The vectors that LLVM uses for a TVM target (`llvm -mcpu=znver4`): those of its -mcpu, and SSE's without one.
Hardware hardware_of_target(std::string_view target, int64_t cores);

}  // namespace foretime::data
