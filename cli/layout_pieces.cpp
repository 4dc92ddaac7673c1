#include "cli/layout_pieces.h"

#include <string_view>
#include <unordered_set>

#include "data/group.h"

namespace foretime::cli {
namespace {

constexpr int64_t kMostLayouts = 256;  // of a node in one call: codes have a byte

}  // namespace

std::vector<int64_t> layout_pieces(std::span<const int8_t> layouts, int64_t configurable, int64_t candidates) {
  if (candidates <= kMostLayouts) return {candidates};
  const auto* bytes = reinterpret_cast<const char*>(layouts.data());
  const auto row_of = [&](int64_t candidate, int64_t node) {
    return std::string_view(bytes + (candidate * configurable + node) * data::kLayoutFeatures, data::kLayoutFeatures);
  };
  std::vector<std::unordered_set<std::string_view>> known(static_cast<size_t>(configurable));  // in this piece
  const auto fits = [&](int64_t candidate) {
    for (int64_t j = 0; j < configurable; ++j) {
      const auto& rows = known[static_cast<size_t>(j)];
      if (static_cast<int64_t>(rows.size()) == kMostLayouts && !rows.contains(row_of(candidate, j))) return false;
    }
    return true;
  };
  std::vector<int64_t> ends;
  for (int64_t candidate = 0; candidate < candidates; ++candidate) {
    if (!fits(candidate)) {
      ends.push_back(candidate);
      for (auto& rows : known) rows.clear();
    }
    for (int64_t j = 0; j < configurable; ++j) known[static_cast<size_t>(j)].insert(row_of(candidate, j));
  }
  ends.push_back(candidates);
  return ends;
}

std::vector<float> score_layouts(const tuner::GraphScorer& scorer, bool compares, std::span<const int8_t> layouts,
                                 int64_t candidates) {
  if (compares) return scorer.score_layouts(layouts, candidates);
  const auto configurable = static_cast<int64_t>(scorer.configurable().size());
  const int64_t row = configurable * data::kLayoutFeatures;
  std::vector<float> scores;
  int64_t first = 0;
  for (const int64_t end : layout_pieces(layouts, configurable, candidates)) {
    const auto piece = layouts.subspan(static_cast<size_t>(first * row), static_cast<size_t>((end - first) * row));
    const auto more = scorer.score_layouts(piece, end - first);
    scores.insert(scores.end(), more.begin(), more.end());
    first = end;
  }
  return scores;
}

}  // namespace foretime::cli
