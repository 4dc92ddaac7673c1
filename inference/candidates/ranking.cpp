#include "inference/candidates/ranking.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "data/graphs/group.h"

namespace foretime::inference {

const char* const kRankingColumns = "group,rank,candidate,id,score,predicted_runtime,level,failure\n";

std::vector<size_t> fastest_first(const Ranking& ranking, int64_t top) {
  std::vector<size_t> order(ranking.scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto& scores = ranking.scores;
  const auto faster = [&](size_t a, size_t b) {
    return scores[a] < scores[b] || (std::isnan(scores[b]) && !std::isnan(scores[a]));
  };
  std::stable_sort(order.begin(), order.end(), faster);
  if (top > 0) order.resize(std::min(order.size(), static_cast<size_t>(top)));
  return order;
}

std::string to_csv(const Ranking& ranking, int64_t top) {
  const std::string group = spreadsheet_field(ranking.group);
  std::string text;
  int64_t place = 0;
  for (const size_t i : fastest_first(ranking, top)) {
    text += fmt::format("{},{},{},{},{},{},{},{}\n", group, place++, ranking.candidates[i],
                        ranking.ids.empty() ? "" : spreadsheet_field(ranking.ids[i]), ranking.scores[i],
                        ranking.predicted.empty() ? "" : fmt::format("{}", ranking.predicted[i]),
                        ranking.levels.empty() ? "" : fmt::format("{}", ranking.levels[i]),
                        ranking.failures.empty() ? "" : fmt::format("{}", ranking.failures[i]));
  }
  return text;
}

nlohmann::json to_json(const Ranking& ranking, int64_t top) {
  auto list = nlohmann::json::array();
  for (const size_t i : fastest_first(ranking, top)) {
    nlohmann::json item = {{"candidate", ranking.candidates[i]}, {"score", ranking.scores[i]}};
    if (!ranking.ids.empty() && !ranking.ids[i].empty()) item["id"] = ranking.ids[i];
    if (!ranking.predicted.empty()) item["predicted_runtime"] = ranking.predicted[i];
    if (!ranking.levels.empty()) item["level"] = ranking.levels[i];
    if (!ranking.failures.empty()) item["failure"] = ranking.failures[i];
    list.push_back(std::move(item));
  }
  return {{"group", ranking.group}, {"ranking", std::move(list)}};
}

std::string submission_line(const std::string& collection, const Ranking& ranking) {
  constexpr int64_t kTopTiles = 5;
  std::vector<int64_t> ids;
  for (const size_t i : fastest_first(ranking, collection.starts_with("tile") ? kTopTiles : 0))
    ids.push_back(ranking.candidates[i]);
  return fmt::format("{}:{},{}\n", collection, data::plain_name(ranking.group), fmt::join(ids, ";"));
}

}  // namespace foretime::inference
