#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/graphs/group.h"
#include "plans/symbolic_plan.h"

namespace foretime::plans {

/// A division of n things into blocks 0, 1, …, numbered in the order in which they first come.
struct Blocks {
  std::vector<int32_t> of;     // [n] block
  std::vector<int32_t> first;  // [blocks] the first thing of each
  int64_t count() const { return static_cast<int64_t>(first.size()); }
};

/// Divides `blocks` further, so that two things stay together only where they are together in `by` as well, of
/// `by_count` blocks. False, with `blocks` as they were, where there would be more than `limit`.
bool refine(Blocks& blocks, std::span<const int32_t> by, int64_t by_count, int64_t limit);

/// The candidates of a sample, divided by each class of a symbolic plan: two are in one block of a class where they
/// have the same layouts at all of its configurable nodes. (Where nearly every candidate is a block of its own, a class
/// is divided no further: its states are interned by hash in any case.)
class CandidateBlocks {
 public:
  CandidateBlocks(const SymbolicPlan& symbolic, const data::LayoutCandidates& layout,
                  std::span<const int64_t> candidates);

  int64_t candidates() const { return candidates_; }
  const Blocks& operator[](int32_t q) const { return blocks_[static_cast<size_t>(q)]; }
  int64_t count(int32_t q) const { return blocks_[static_cast<size_t>(q)].count(); }

 private:
  Blocks by_code(const data::LayoutCandidates& layout, int64_t column, std::span<const int64_t> candidates) const;
  Blocks by_members(std::span<const int32_t> members) const;
  Blocks each_alone() const;

  int64_t candidates_;
  std::vector<Blocks> blocks_;  // [classes]
};

}  // namespace foretime::plans
