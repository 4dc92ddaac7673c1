#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// The functions become part of this program, which then needs no library; they allocate no memory.
#define XXH_INLINE_ALL
#define XXH_NO_XXH3
#include <xxhash.h>

namespace foretime {

/// Returns XXH64 (64-bit xxHash) of the memory of `values`.
template <class T>
uint64_t checksum_of(std::span<T> values, uint64_t seed = 0) {
  return XXH64(values.data(), values.size_bytes(), seed);
}

/// Computes XXH64 of bytes that come in pieces of any size.
class Checksum {
 public:
  explicit Checksum(uint64_t seed = 0) { XXH64_reset(&state_, seed); }
  /// Appends bytes to those of earlier calls.
  void add(std::span<const std::byte> bytes) { XXH64_update(&state_, bytes.data(), bytes.size()); }
  /// Returns the checksum of all bytes so far; more may follow.
  uint64_t value() const { return XXH64_digest(&state_); }

 private:
  XXH64_state_t state_;
};

}  // namespace foretime
