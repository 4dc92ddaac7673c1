#include "cli/submission.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace foretime::cli {

std::string submission_line(const std::string& collection, const worker::GroupEvaluation& group) {
  constexpr size_t kTopTiles = 5;
  std::vector<size_t> order(group.candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return group.scores.scores[a] < group.scores.scores[b]; });
  if (collection.starts_with("tile")) order.resize(std::min(order.size(), kTopTiles));
  std::vector<int64_t> ids;
  for (const size_t i : order) ids.push_back(group.candidates[i]);
  return fmt::format("{}:{},{}\n", collection, data::plain_name(group.group), fmt::join(ids, ";"));
}

}  // namespace foretime::cli
