#include "history/history.h"

#include <cmath>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/csv.h"

namespace foretime::history {

void History::rewind(int64_t step) {
  for (auto& [name, points] : series_)
    while (!points.empty() && points.back().step > step) points.pop_back();
  std::erase_if(series_, [](const auto& entry) { return entry.second.empty(); });
}

void History::remove_points(const std::string& name, int64_t from_step) {
  const auto found = series_.find(name);
  if (found == series_.end()) return;
  std::erase_if(found->second, [&](const Point& point) { return point.step >= from_step; });
  if (found->second.empty()) series_.erase(found);
}

void History::add(int64_t step, const std::map<std::string, double>& values) {
  if (step < last_step_) rewind(step);
  if (values.empty() && series_.empty()) return;
  last_step_ = step;
  for (const auto& [name, value] : values) {
    auto found = series_.find(name);
    if (found == series_.end()) {
      if (series_.size() >= kSeries) continue;
      found = series_.try_emplace(name).first;
    }
    auto& points = found->second;
    if (!points.empty() && points.back().step == step) points.back().value = value;
    else if (most_ == 0) points.push_back({step, value});
    else add_bounded(points, distances_[name], {step, value});
  }
}

void History::add_bounded(Series& points, int64_t& distance, const Point& point) const {
  const auto size = std::ssize(points);
  if (size > 1 && points[size - 1].step - points[size - 2].step < distance) points.pop_back();
  if (points.size() >= most_) {
    const int64_t most = most_, span = point.step - points.front().step;
    distance = (2 * span + most - 1) / most;
    auto last = points.begin();
    for (const auto& each : points)
      if (each.step - last->step >= distance) *++last = each;
    points.erase(last + 1, points.end());
  }
  points.push_back(point);
}

Series thinned(const Series& series, size_t most) {
  if (series.size() <= most || most == 0) return most == 0 ? Series() : series;
  if (most == 1) return {series.back()};
  const size_t stride = (series.size() - 2) / (most - 1) + 1;
  Series kept;
  for (size_t i = 0; i + 1 < series.size(); i += stride) kept.push_back(series[i]);
  kept.push_back(series.back());
  return kept;
}

std::string to_csv(const History& history) {
  std::set<int64_t> steps;
  std::vector<std::pair<Series::const_iterator, Series::const_iterator>> rest;
  std::string text = "step";
  for (const auto& [name, points] : history.series()) {
    text += "," + spreadsheet_field(name);
    for (const auto& point : points) steps.insert(point.step);
    rest.emplace_back(points.begin(), points.end());
  }
  text += '\n';
  for (const auto step : steps) {
    text += std::to_string(step);
    for (auto& [next, end] : rest) {
      text += ',';
      if (next != end && next->step == step) text += fmt::format("{}", (next++)->value);
    }
    text += '\n';
  }
  return text;
}

nlohmann::json to_json(const History& history, size_t most) {
  auto all = nlohmann::json::object();
  for (const auto& [name, points] : history.series()) {
    auto steps = nlohmann::json::array(), values = nlohmann::json::array();
    for (const auto& [step, value] : most == 0 ? points : thinned(points, most)) {
      steps.push_back(step);
      values.push_back(std::isfinite(value) ? nlohmann::json(value) : nlohmann::json());
    }
    all[name] = {{"steps", std::move(steps)}, {"values", std::move(values)}};
  }
  return all;
}

}  // namespace foretime::history
