#include "inference/scoring/ranking.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "base/numbers.h"
#include "data/graphs/group.h"

namespace foretime::inference {

namespace {

/// The shortest decimal number that is the same float: models compute in float, so further digits say nothing.
std::string float_text(double value) { return fmt::format("{}", static_cast<float>(value)); }

/// The double that JSON writes as float_text does.
double float_digits(double value) { return parse_number<double>(float_text(value)).value_or(value); }

bool any_has(std::span<const Ranking> rankings, const auto& list) {
  return std::ranges::any_of(rankings, [&](const Ranking& ranking) { return !(ranking.*list).empty(); });
}

}  // namespace

std::vector<size_t> fastest_first(const Ranking& ranking, int64_t top) {
  std::vector<size_t> order(ranking.scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto& scores = ranking.scores;
  const auto faster = [&](size_t a, size_t b) {
    return scores[a] < scores[b] || (std::isnan(scores[b]) && !std::isnan(scores[a]));
  };
  std::stable_sort(order.begin(), order.end(), faster);
  if (top > 0) order.resize(std::min<size_t>(order.size(), top));
  return order;
}

std::string to_csv(std::span<const Ranking> rankings, int64_t top) {
  const bool runtimes = any_has(rankings, &Ranking::predicted), levels = any_has(rankings, &Ranking::levels),
             failures = any_has(rankings, &Ranking::failures);
  std::string text = fmt::format("group,rank,candidate,id,score{}{}{}\n", runtimes ? ",predicted_runtime" : "",
                                 levels ? ",level" : "", failures ? ",failure" : "");
  for (const auto& ranking : rankings) {
    const std::string group = spreadsheet_field(ranking.group);
    int64_t place = 0;
    for (const size_t i : fastest_first(ranking, top)) {
      text += fmt::format("{},{},{},{},{}", group, place++, ranking.candidates[i],
                          ranking.ids.empty() ? "" : spreadsheet_field(ranking.ids[i]), float_text(ranking.scores[i]));
      if (runtimes) text += ',' + (ranking.predicted.empty() ? "" : float_text(ranking.predicted[i]));
      if (levels) text += ',' + (ranking.levels.empty() ? "" : fmt::format("{}", ranking.levels[i]));
      if (failures) text += ',' + (ranking.failures.empty() ? "" : float_text(ranking.failures[i]));
      text += '\n';
    }
  }
  return text;
}

nlohmann::json to_json(const Ranking& ranking, int64_t top) {
  auto list = nlohmann::json::array();
  for (const size_t i : fastest_first(ranking, top)) {
    nlohmann::json item = {{"candidate", ranking.candidates[i]}, {"score", float_digits(ranking.scores[i])}};
    if (!ranking.ids.empty() && !ranking.ids[i].empty()) item["id"] = ranking.ids[i];
    if (!ranking.predicted.empty()) item["predicted_runtime"] = float_digits(ranking.predicted[i]);
    if (!ranking.levels.empty()) item["level"] = ranking.levels[i];
    if (!ranking.failures.empty()) item["failure"] = float_digits(ranking.failures[i]);
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
