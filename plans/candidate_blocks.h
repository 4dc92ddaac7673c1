#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/graphs/group.h"
#include "plans/symbolic_plan.h"

namespace foretime::plans {

/// Holds a division of n items into blocks 0, 1, …, numbered in the order of their first items.
struct Blocks {
  std::vector<int32_t> of;     // [n] block of each item
  std::vector<int32_t> first;  // [blocks] first item of each block
  int64_t count() const { return first.size(); }
};

/// Divides `blocks` further: two items stay in one block only if their numbers in `by` are equal as well. `by` [n] has
/// numbers from 0 to by_count - 1. Returns false, without a change, if there would be more than `limit` blocks.
bool refine(Blocks& blocks, std::span<const int32_t> by, int64_t by_count, int64_t limit);

/// Divides the candidates of a sample by each class of a symbolic plan: two candidates are in one block of a class if
/// they have equal layouts at all configurable nodes of the class. In the class `everything` each candidate is a
/// separate block. Items of the blocks are positions in `candidates`.
class CandidateBlocks {
 public:
  CandidateBlocks(const SymbolicPlan& symbolic, const data::LayoutCandidates& layout,
                  std::span<const int64_t> candidates);

  int64_t candidates() const { return candidates_; }
  /// Returns the division by class `q`.
  const Blocks& operator[](int32_t q) const { return blocks_[q]; }
  int64_t count(int32_t q) const { return blocks_[q].count(); }  // number of blocks of class q

 private:
  /// Divides the candidates by their codes in column `column` of layout.codes: their layouts at one configurable node.
  Blocks by_code(const data::LayoutCandidates& layout, int64_t column, std::span<const int64_t> candidates) const;
  /// Divides the candidates so that two are together only if each of these classes has them in one block.
  Blocks by_members(std::span<const int32_t> members) const;
  /// Puts each candidate into a separate block.
  Blocks each_alone() const;

  int64_t candidates_;
  std::vector<Blocks> blocks_;  // [classes]
};

}  // namespace foretime::plans
