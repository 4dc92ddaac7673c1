#include "jobs/sweep/leaderboard.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "base/numbers.h"

namespace foretime::jobs {
namespace {

constexpr const char* kSeed = "trainer.seed";

bool better(const std::optional<double>& a, const std::optional<double>& b, bool maximize) {
  if (!a || !b) return a.has_value() && !b.has_value();
  return maximize ? *a > *b : *a < *b;
}

void summarize(LeaderboardRow& row, const std::string& metric, bool maximize) {
  std::stable_sort(row.trials.begin(), row.trials.end(), [&](const auto& a, const auto& b) {
    return better(metric_of(a, metric), metric_of(b, metric), maximize);
  });
  double sum = 0, squares = 0;
  for (const auto& job : row.trials) {
    if (const auto value = metric_of(job, metric)) {
      sum += *value;
      ++row.counted;
    }
  }
  if (row.counted == 0) return;
  const double mean = sum / row.counted;
  row.value = mean;
  if (row.counted < 2) return;
  for (const auto& job : row.trials)
    if (const auto value = metric_of(job, metric)) squares += (*value - mean) * (*value - mean);
  row.spread = std::sqrt(squares / (row.counted - 1));
}

}  // namespace

std::optional<double> metric_of(const JobRecord& job, const std::string& metric) {
  if (!job.unreadable.empty()) return std::nullopt;
  const auto found = job.metrics.find(metric);
  const std::optional<double> reported =
      found == job.metrics.end() || !std::isfinite(found->second) ? std::nullopt : std::optional(found->second);
  const bool complete = job.state == JobState::succeeded && !job.stopped;
  if (metric != job.spec.metric || (complete && reported)) return reported;
  return job.best_objective ? job.best_objective : reported;
}

std::vector<std::string> standing_fields() {
  return {"kind", "state", "stopped", "metric", "best_objective", "objective", "metrics"};
}

std::optional<double> number_in(std::string_view object, const std::string& name) {
  const auto key = nlohmann::json(name).dump() + ":";
  const auto at = object.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  object.remove_prefix(at + key.size());
  const auto value = take_number<double>(object);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<Standing> standing_of(uint32_t index, const std::vector<std::string_view>& values,
                                    const std::string& metric) {
  // A kind that nobody knows is damage: the trial is shown, without a value.
  if (!configs::choice_named<JobKind>(std::string(values[0]))) return Standing{index, std::nullopt};
  if (values[0] != "train") return std::nullopt;
  const bool succeeded = values[1] == "succeeded";
  const auto reported = number_in(values[6], metric);
  if (values[3] != metric || (succeeded && values[2] != "1" && reported)) return Standing{index, reported};
  auto best = parse_number<double>(values[4]);
  if (!best && succeeded) best = parse_number<double>(values[5]);
  return Standing{index, best ? best : reported};
}

std::vector<RankedRow> ranked_rows(const std::vector<Standing>& standings, const std::vector<uint32_t>& join,
                                   bool maximize) {
  std::vector<RankedRow> rows;
  std::vector<double> sums;
  std::vector<uint32_t> counts;
  std::map<uint32_t, size_t> places;
  for (size_t i = 0; i < standings.size(); ++i) {
    auto place = rows.size();
    if (!join.empty()) place = places.emplace(join[i], place).first->second;
    if (place == rows.size()) {
      rows.emplace_back();
      sums.push_back(0);
      counts.push_back(0);
    }
    rows[place].trials.push_back(standings[i].index);
    if (!standings[i].value) continue;
    sums[place] += *standings[i].value;
    ++counts[place];
  }
  for (size_t i = 0; i < rows.size(); ++i)
    if (counts[i] > 0) rows[i].value = sums[i] / counts[i];
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto& a, const auto& b) { return better(a.value, b.value, maximize); });
  return rows;
}

std::vector<LeaderboardRow> leaderboard_rows(const std::vector<JobRecord>& jobs, const std::string& metric,
                                             bool maximize, bool join_seeds) {
  std::vector<LeaderboardRow> rows;
  std::map<Parameters, size_t> joined;
  for (const auto& job : jobs) {
    if (job.spec.kind != JobKind::train) continue;
    auto parameters = job.spec.parameters;
    if (join_seeds) {
      parameters.erase(kSeed);
      const auto [place, fresh] = joined.emplace(parameters, rows.size());
      if (!fresh) {
        rows[place->second].trials.push_back(job);
        continue;
      }
    }
    rows.push_back({.trials = {job}, .value = {}, .parameters = std::move(parameters)});
  }
  for (auto& row : rows) summarize(row, metric, maximize);
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto& a, const auto& b) { return better(a.value, b.value, maximize); });
  return rows;
}

}  // namespace foretime::jobs
