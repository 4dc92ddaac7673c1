#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "plans/state_hash.h"

namespace foretime::plans {

/// Appends entries of one row of a sparse matrix in the order of their columns; those of one column become their sum.
/// Sorts `entries`.
inline void append_merged(std::vector<std::pair<int32_t, double>>& entries, std::vector<int32_t>& columns,
                          std::vector<double>& values) {
  std::sort(entries.begin(), entries.end());
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
