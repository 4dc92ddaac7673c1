#include "cli/board/importance.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/numbers.h"
#include "metrics/metrics.h"

namespace foretime::cli {
namespace {

constexpr size_t kMostValues = 8, kQuantiles = 6;

std::optional<double> finite_number(const std::string& text) {
  const auto value = parse_number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / values.size();
}

double squares_around(const std::vector<double>& values, double mean) {
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum;
}

}  // namespace

std::optional<Importance> importance_of(const std::string& parameter,
                                        const std::vector<std::optional<std::string>>& values,
                                        const std::vector<double>& objectives) {
  std::vector<std::string> texts;
  std::vector<double> numbers, outcomes;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) continue;
    texts.push_back(*values[i]);
    outcomes.push_back(objectives[i]);
    if (const auto number = finite_number(*values[i])) numbers.push_back(*number);
  }
  const bool numeric = numbers.size() == texts.size() && !numbers.empty();
  std::vector<double> distinct = numbers;
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const auto ranks = metrics::ranks_of(outcomes);
  const double n = ranks.size();
  std::map<std::string, std::vector<double>> groups;
  const auto places = numeric ? metrics::ranks_of(numbers) : std::vector<double>();
  if (numeric) {
    // Groups have three trials or more on average.
    const bool cut = distinct.size() > std::min(kMostValues, ranks.size() / 2);
    const double quantiles = std::clamp(ranks.size() / 3, size_t{2}, kQuantiles);
    for (size_t i = 0; i < ranks.size(); ++i) {
      const double quantile = std::floor(places[i] / n * quantiles);
      groups[std::to_string(cut ? quantile : places[i])].push_back(ranks[i]);
    }
  } else {
    for (size_t i = 0; i < ranks.size(); ++i) groups[texts[i]].push_back(ranks[i]);
  }
  const double k = groups.size();
  if (k < 2 || n < k + 2) return std::nullopt;
  const double total = squares_around(ranks, mean_of(ranks));
  if (total <= 0) return std::nullopt;
  double within = 0;
  for (const auto& [value, group] : groups) within += squares_around(group, mean_of(group));
  Importance found{.parameter = parameter, .trials = std::ssize(ranks)};
  found.share = std::max(0.0, 1 - within / (n - k) / (total / (n - 1)));
  if (numeric) {
    const double mean = mean_of(places), spread = squares_around(places, mean);
    double product = 0;
    for (size_t i = 0; i < ranks.size(); ++i) product += (places[i] - mean) * (ranks[i] - (n - 1) / 2);
    found.rank_correlation = product / std::sqrt(spread * total);
  }
  return found;
}

}  // namespace foretime::cli
