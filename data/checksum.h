#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace foretime::data {

/// XXH64 (Yann Collet's 64-bit xxHash, as its public specification defines it): several bytes a cycle, so that a packed
/// group can be checked each time it is opened.
uint64_t checksum(std::span<const std::byte> bytes, uint64_t seed = 0);

/// The same of the memory of `values`.
template <class T>
uint64_t checksum_of(std::span<T> values, uint64_t seed = 0) {
  return checksum(std::as_bytes(values), seed);
}

}  // namespace foretime::data
