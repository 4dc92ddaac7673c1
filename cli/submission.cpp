#include "cli/submission.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace foretime::cli {

std::string collection_of(const std::string& path) {
  std::vector<std::string> parts;
  for (const auto& part : std::filesystem::path(path)) parts.push_back(part.string());
  for (size_t i = 0; i + 2 < parts.size(); ++i) {
    if (parts[i] == "tile") return "tile:" + parts[i + 1];
    if (parts[i] == "layout" && i + 3 < parts.size()) return "layout:" + parts[i + 1] + ":" + parts[i + 2];
  }
  return "";
}

std::string submission_line(const std::string& collection, const worker::GroupEvaluation& group) {
  constexpr size_t kTopTiles = 5;
  std::vector<size_t> order(group.candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return group.scores.scores[a] < group.scores.scores[b]; });
  if (collection.starts_with("tile")) order.resize(std::min(order.size(), kTopTiles));
  std::vector<int64_t> ids;
  for (const size_t i : order) ids.push_back(group.candidates[i]);
  return fmt::format("{}:{},{}\n", collection, group.group, fmt::join(ids, ";"));
}

}  // namespace foretime::cli
