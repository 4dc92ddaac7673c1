#include "cli/board/rankings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "base/foreign_file.h"
#include "base/numbers.h"
#include "base/text.h"
#include "history/history.h"
#include "metrics/metrics.h"

namespace foretime::cli {

using Json = nlohmann::json;

namespace {

constexpr uint64_t kMostBytes = 64 << 20;
constexpr size_t kMostGroups = 400, kMostPoints = 300;

/// NaN for an empty field.
double score_in(const std::string& text) {
  return parse_number<double>(text).value_or(std::numeric_limits<double>::quiet_NaN());
}

Json finite_json(double value) { return std::isfinite(value) ? Json(value) : Json(); }

struct Group {
  std::vector<double> scores, predicted, measured;
};

Json one_line(const std::pair<std::string, std::string>& name, const Group& group) {
  std::vector<double> scores, runtimes;
  int64_t failed = 0;
  for (size_t i = 0; i < group.scores.size(); ++i) {
    if (std::isinf(group.measured[i])) ++failed;
    if (!std::isfinite(group.scores[i]) || !std::isfinite(group.measured[i])) continue;
    scores.push_back(group.scores[i]);
    runtimes.push_back(group.measured[i]);
  }
  Json points = Json::array();
  const size_t stride = (group.scores.size() + kMostPoints - 1) / kMostPoints;
  for (size_t i = 0; i < group.scores.size(); i += std::max<size_t>(1, stride))
    points.push_back(
        {i, finite_json(group.scores[i]), finite_json(group.predicted[i]), finite_json(group.measured[i])});
  return {{"set", printable_utf8(name.first)},
          {"group", printable_utf8(name.second)},
          {"candidates", group.scores.size()},
          {"failed", failed},
          {"kendall_tau", finite_json(metrics::kendall_tau(scores, runtimes))},
          {"top1_slowdown", finite_json(metrics::top_k_slowdown(scores, runtimes, 1))},
          {"top5_slowdown", finite_json(metrics::top_k_slowdown(scores, runtimes, 5))},
          {"points", std::move(points)}};
}

}  // namespace

Json rankings_of(const std::filesystem::path& root, const std::filesystem::path& name) {
  Json json = {{"groups", Json::array()}, {"total", 0}, {"cut", false}};
  const auto file = open_foreign(root, name, UINT64_MAX);
  if (!file) return json;
  const bool cut = file->size() > kMostBytes;
  std::string text(std::min<uint64_t>(kMostBytes, file->size()), '\0');
  text.resize(file->read(text));
  std::map<std::string, size_t> columns;
  std::map<std::pair<std::string, std::string>, Group> groups;
  std::vector<std::pair<std::string, std::string>> order;
  size_t count = 0;
  for (size_t begin = 0; begin < text.size();) {
    const auto end = text.find('\n', begin);
    if (end == std::string::npos && cut) break;  // not whole
    const auto fields = csv_line(std::string_view(text).substr(begin, end - begin), ',', (root / name).string());
    begin = end == std::string::npos ? text.size() : end + 1;
    if (columns.empty()) {
      for (size_t i = 0; i < fields.size(); ++i) columns[fields[i]] = i;
      for (const char* needed : {"set", "group", "score", "predicted_runtime", "runtime"}) {
        if (!columns.contains(needed))
          throw history::HistoryError(
              "{}: found no column {}, expected set, group, score, predicted_runtime and runtime (written by another "
              "program?)",
              (root / name).string(), needed);
      }
      count = fields.size();
      continue;
    }
    if (fields.size() != count) continue;
    const std::pair group(fields[columns["set"]], fields[columns["group"]]);
    auto [place, is_new] = groups.try_emplace(group);
    if (is_new) order.push_back(group);
    place->second.scores.push_back(score_in(fields[columns["score"]]));
    place->second.predicted.push_back(score_in(fields[columns["predicted_runtime"]]));
    place->second.measured.push_back(score_in(fields[columns["runtime"]]));
  }
  for (size_t i = 0; i < std::min(kMostGroups, order.size()); ++i)
    json["groups"].push_back(one_line(order[i], groups.at(order[i])));
  json["total"] = order.size();
  json["cut"] = cut;
  return json;
}

}  // namespace foretime::cli
