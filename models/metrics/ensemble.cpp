#include "models/metrics/ensemble.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace foretime::models {
namespace {

bool predicts(const Scores& member) {
  return !member.predicted.empty() && std::all_of(member.predicted.begin(), member.predicted.end(),
                                                  [](double time) { return time > 0 && std::isfinite(time); });
}

std::vector<double> standardized(const std::vector<double>& scores) {
  const auto n = static_cast<double>(scores.size());
  const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / n;
  double squares = 0;
  for (const double score : scores) squares += (score - mean) * (score - mean);
  std::vector<double> out;
  for (const double score : scores) out.push_back(squares > 0 ? (score - mean) / std::sqrt(squares / n) : 0.0);
  return out;
}

}  // namespace

Scores joined_scores(const std::vector<Scores>& members) {
  if (members.size() == 1) return members.front();
  const bool times = std::all_of(members.begin(), members.end(), predicts);
  const auto count = static_cast<double>(members.size());
  Scores joined;
  joined.scores.resize(members.front().scores.size());
  for (const Scores& member : members) {
    const auto ranked = times ? std::vector<double>() : standardized(member.scores);
    for (size_t i = 0; i < joined.scores.size(); ++i)
      joined.scores[i] += (times ? std::log(member.predicted[i]) : ranked[i]) / count;
  }
  if (!times) return joined;
  for (double& score : joined.scores) score = std::exp(score);
  joined.predicted = joined.scores;
  return joined;
}

}  // namespace foretime::models
