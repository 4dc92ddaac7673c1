#include "worker/tuning/tuning_outcome.h"

#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace foretime::worker {
namespace {

constexpr const char* kJudge = "holdout/kendall_tau";

double sign(double x) { return static_cast<double>((x > 0) - (x < 0)); }

/// Of one group: what τ changed by, with the variance of that.
struct GroupChange {
  double mean = 0, variance = 0;
};

GroupChange change_of(const worker::GroupEvaluation& before, const worker::GroupEvaluation& after) {
  const size_t n = before.runtimes.size();
  std::vector<double> of_candidate(n);  // sums over the pairs that it is in
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j) {
      const auto order = sign(before.runtimes[i] - before.runtimes[j]);
      const auto changed = order * (sign(after.scores.scores[i] - after.scores.scores[j]) -
                                    sign(before.scores.scores[i] - before.scores.scores[j]));
      of_candidate[i] += changed;
      of_candidate[j] += changed;
      sum += changed;
    }
  }
  const auto count = static_cast<double>(n);
  GroupChange change{sum / (count * (count - 1) / 2)};
  if (n == 2) return {change.mean, change.mean * change.mean};
  for (const double own : of_candidate) {
    const double without = (sum - own) / ((count - 1) * (count - 2) / 2) - change.mean;
    change.variance += (count - 1) / count * without * without;
  }
  return change;
}

}  // namespace

OrderChange order_change(const worker::Evaluation& before, const worker::Evaluation& after) {
  OrderChange change;
  double variance = 0;
  for (size_t g = 0; g < before.groups.size(); ++g) {
    if (before.groups[g].runtimes.size() < 2) continue;
    const auto group = change_of(before.groups[g], after.groups[g]);
    change.mean += group.mean;
    variance += group.variance;
    ++change.groups;
  }
  if (change.groups == 0) return change;
  const auto groups = static_cast<double>(change.groups);
  return {change.mean / groups, std::sqrt(variance) / groups, change.groups};
}

bool TuningOutcome::measurable() const { return before.contains(kJudge); }

TuningOutcome::Metrics TuningOutcome::of_job() const {
  auto metrics = kept_parent ? before : after;
  const auto add = [&](const char* prefix, const Metrics& more) {
    for (const auto& [name, value] : more) metrics[prefix + name.substr(name.find('/'))] = value;
  };
  add("parent", before);
  add("replay", kept_parent ? replay_before : replay_after);
  metrics["kept_parent"] = kept_parent ? 1.0 : 0.0;
  return metrics;
}

void TuningOutcome::add_to(nlohmann::json& note) const {
  note["before"] = before;
  note["after"] = after;
  note["change"] = {{"kendall_tau", change.mean}, {"standard_error", change.error}};
  note["weights"] = kept_parent ? "parent" : "tuned";
  if (replay_before.empty()) return;
  note["replay_before"] = replay_before;
  note["replay_after"] = replay_after;
}

std::string TuningOutcome::table() const {
  std::vector<std::vector<std::string>> rows = {{"held out", "before", "after"}};
  const auto add = [&](const char* which, const Metrics& first, const Metrics& second) {
    for (const auto& [name, label] :
         {std::pair("kendall_tau", "Kendall τ"), std::pair("pairwise_accuracy", "ordered pairs"),
          std::pair("top1_slowdown", "top-1 slowdown")}) {
      const auto key = fmt::format("holdout/{}", name);
      if (!first.contains(key) || !second.contains(key)) continue;
      rows.push_back({fmt::format("{}: {}", which, label), fmt::format("{:.3f}", first.at(key)),
                      fmt::format("{:.3f}", second.at(key))});
    }
  };
  add("new", before, after);
  add("old", replay_before, replay_after);
  return rows.size() > 1 ? format_table(rows) : std::string();
}

TuningOutcome::Metrics finite_metrics(const worker::Evaluation& evaluation) {
  auto metrics = evaluation.metrics;
  std::erase_if(metrics, [](const auto& metric) { return !std::isfinite(metric.second); });
  return metrics;
}

}  // namespace foretime::worker
