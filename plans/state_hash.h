#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace foretime::plans {

/// 128 bits that stand for how a state is computed. Of n states two different ones agree with probability n² / 2^129
/// (10^-26 for a million), which is taken as never.
struct StateHash {
  uint64_t low = 0, high = 0;
  bool operator==(const StateHash&) const = default;
};

/// A multiset's hash is the sum of its members' hashes.
inline StateHash operator+(StateHash a, StateHash b) { return {a.low + b.low, a.high + b.high}; }

/// Both halves of a 64 × 64 bit product, folded (as wyhash and the MUM hashes do).
inline uint64_t fold_product(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

/// A pseudo-random function of the state and a 64-bit key, in which neither half of the input is lost.
inline StateHash mixed(StateHash h, uint64_t key) {
  const uint64_t a = fold_product(h.low ^ 0x9E3779B97F4A7C15U ^ key, h.high ^ 0xD6E8FEB86659FD93U);
  const uint64_t b = fold_product(h.high ^ 0xA0761D6478BD642FU ^ key, h.low ^ 0xE7037ED1A0B428DBU);
  return {a + (h.low ^ (h.high << 23 | h.high >> 41)) * 0x8EBC6AF09C88C6E3U, b + (h.high ^ key) * 0x589965CC75374CC3U};
}

inline StateHash combined(StateHash a, StateHash b) {
  return mixed(
      {a.low + 3 * b.high + 0x1D8E4E27C47D124FU, a.high ^ fold_product(b.low ^ 0x2D358DCCAA6C78A5U, b.high | 1)},
      b.low);
}

/// Of some bytes.
StateHash hash_bytes(std::span<const std::byte> bytes, uint64_t key);

}  // namespace foretime::plans
