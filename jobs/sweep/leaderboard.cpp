#include "jobs/sweep/leaderboard.h"

#include <algorithm>
#include <cmath>

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
  const double mean = sum / static_cast<double>(row.counted);
  row.value = mean;
  if (row.counted < 2) return;
  for (const auto& job : row.trials) {
    if (const auto value = metric_of(job, metric)) squares += (*value - mean) * (*value - mean);
  }
  row.spread = std::sqrt(squares / static_cast<double>(row.counted - 1));
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
