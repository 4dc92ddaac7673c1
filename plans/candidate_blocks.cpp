#include "plans/candidate_blocks.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "base/index_range.h"

namespace foretime::plans {
namespace {

constexpr int64_t kDirectPairs = 1 << 16;  // looked up in an array, which fits a cache

/// Numbers pairs as they come; `slot_of` finds where a pair keeps its number, -1 at first.
template <class SlotOf>
bool number_pairs(Blocks& blocks, std::span<const int32_t> by, int64_t limit, SlotOf&& slot_of) {
  Blocks finer;
  finer.of.resize(blocks.of.size());
  for (size_t i = 0; i < blocks.of.size(); ++i) {
    int32_t& number = slot_of(blocks.of[i], by[i]);
    if (number < 0) {
      if (finer.count() == limit) return false;
      number = finer.first.size();
      finer.first.push_back(i);
    }
    finer.of[i] = number;
  }
  blocks = std::move(finer);
  return true;
}

}  // namespace

bool refine(Blocks& blocks, std::span<const int32_t> by, int64_t by_count, int64_t limit) {
  const int64_t pairs = blocks.count() * by_count;
  if (pairs <= std::max<int64_t>(kDirectPairs, 4 * std::ssize(blocks.of))) {
    std::vector<int32_t> known(pairs, -1);
    return number_pairs(blocks, by, limit, [&](int64_t a, int64_t b) -> int32_t& { return known[a * by_count + b]; });
  }
  std::unordered_map<int64_t, int32_t> known;
  known.reserve(blocks.of.size());
  return number_pairs(blocks, by, limit, [&](int64_t a, int64_t b) -> int32_t& {
    return known.emplace(a * by_count + b, -1).first->second;
  });
}

CandidateBlocks::CandidateBlocks(const SymbolicPlan& symbolic, const data::LayoutCandidates& layout,
                                 std::span<const int64_t> candidates)
    : candidates_(candidates.size()) {
  const auto& classes = symbolic.classes;
  blocks_.reserve(classes.count());
  for (int32_t q = 0; q < classes.count(); ++q) {
    if (q == classes.everything()) blocks_.push_back(each_alone());
    else if (q < symbolic.configurable()) blocks_.push_back(by_code(layout, symbolic.column[q], candidates));
    else blocks_.push_back(by_members(row_of(classes.members, classes.member_ptr, q)));
  }
}

Blocks CandidateBlocks::by_code(const data::LayoutCandidates& layout, int64_t column,
                                std::span<const int64_t> candidates) const {
  std::array<int32_t, 256> seen;
  seen.fill(-1);
  const int64_t width = layout.configurable();
  Blocks blocks;
  blocks.of.resize(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    int32_t& number = seen[layout.codes[candidates[i] * width + column]];
    if (number < 0) {
      number = blocks.first.size();
      blocks.first.push_back(i);
    }
    blocks.of[i] = number;
  }
  return blocks;
}

Blocks CandidateBlocks::by_members(std::span<const int32_t> members) const {
  // The finest first: it may leave nothing to divide.
  const auto finest = *std::ranges::max_element(members, [&](int32_t a, int32_t b) { return count(a) < count(b); });
  Blocks blocks = (*this)[finest];
  for (const int32_t by : members) {
    if (blocks.count() == candidates_) break;
    if (by != finest && count(by) > 1) refine(blocks, (*this)[by].of, count(by), candidates_);
  }
  return blocks;
}

Blocks CandidateBlocks::each_alone() const {
  Blocks blocks;
  blocks.of.resize(candidates_);
  std::iota(blocks.of.begin(), blocks.of.end(), 0);
  blocks.first = blocks.of;
  return blocks;
}

}  // namespace foretime::plans
