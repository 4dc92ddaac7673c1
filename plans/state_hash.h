#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

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

/// Appends entries of one row of a sparse matrix in the order of their columns; those of one column become their sum.
/// Sorts `entries`.
inline void append_merged(std::vector<std::pair<int32_t, double>>& entries, std::vector<int32_t>& columns,
                          std::vector<double>& values) {
  std::ranges::sort(entries);
  for (size_t i = 0; i < entries.size();) {
    const int32_t column = entries[i].first;
    double sum = 0;
    for (; i < entries.size() && entries[i].first == column; ++i) sum += entries[i].second;
    columns.push_back(column);
    values.push_back(sum);
  }
}

/// Numbers distinct hashes 0, 1, … in the order in which they first come.
class StateTable {
 public:
  /// The number of `hash`, and whether it is new.
  std::pair<int32_t, bool> intern(StateHash hash) {
    if (2 * hashes_.size() >= slots_.size()) grow();
    size_t at = hash.low & mask_;
    while (slots_[at] >= 0) {
      if (hashes_[static_cast<size_t>(slots_[at])] == hash) return {slots_[at], false};
      at = (at + 1) & mask_;
    }
    slots_[at] = static_cast<int32_t>(hashes_.size());
    hashes_.push_back(hash);
    return {slots_[at], true};
  }
  const StateHash& hash(int32_t state) const { return hashes_[static_cast<size_t>(state)]; }
  int64_t size() const { return static_cast<int64_t>(hashes_.size()); }

 private:
  void grow() {
    slots_.assign(slots_.empty() ? 1024 : 2 * slots_.size(), -1);
    mask_ = slots_.size() - 1;
    for (size_t i = 0; i < hashes_.size(); ++i) {
      size_t at = hashes_[i].low & mask_;
      while (slots_[at] >= 0) at = (at + 1) & mask_;
      slots_[at] = static_cast<int32_t>(i);
    }
  }

  std::vector<StateHash> hashes_;
  std::vector<int32_t> slots_;  // number, or -1
  size_t mask_ = 0;
};

}  // namespace foretime::plans
