#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace foretime {

/// Returns XXH64 of `bytes` (Yann Collet's 64-bit xxHash, by its public specification).
uint64_t checksum(std::span<const std::byte> bytes, uint64_t seed = 0);

/// Returns XXH64 of the memory of `values`.
template <class T>
uint64_t checksum_of(std::span<T> values, uint64_t seed = 0) {
  return checksum(std::as_bytes(values), seed);
}

/// Computes XXH64 of bytes that come in pieces of any size.
class Checksum {
 public:
  explicit Checksum(uint64_t seed = 0);
  void add(std::span<const std::byte> bytes);  // appends bytes to those of earlier calls
  /// Returns the checksum of all bytes so far; more may follow.
  uint64_t value() const;

 private:
  static constexpr size_t kBlock = 32;

  uint64_t seed_;
  std::array<uint64_t, 4> lanes_;                // state of XXH64 after the last whole block
  std::array<std::byte, kBlock> partial_block_;  // the first bytes_ % kBlock bytes belong to the incomplete next block
  uint64_t bytes_ = 0;                           // number of all bytes so far
};

}  // namespace foretime
