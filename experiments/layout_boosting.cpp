#include <algorithm>
#include <numeric>

#include "experiments/baseline_trial.h"
#include "models/baselines/booster.h"

namespace foretime::experiments {
namespace {

constexpr int64_t kRounds = 300;

models::BoosterMatrix one_hot_rows(const data::LayoutCandidates& layout, const std::vector<int64_t>& candidates,
                                   int64_t threads) {
  const int64_t columns = layout.row_ptr[layout.configurable()];
  std::vector<float> features(candidates.size() * static_cast<size_t>(columns));
  for (size_t i = 0; i < candidates.size(); ++i) {
    float* row = features.data() + i * static_cast<size_t>(columns);
    for (int64_t j = 0; j < layout.configurable(); ++j)
      row[layout.row_ptr[j] + layout.codes[candidates[i] * layout.configurable() + j]] = 1;
  }
  return {features, columns, threads};
}

/// Equal run times have the mean of their ranks.
std::vector<float> ranks_of(const Array<double>& runtimes, const std::vector<int64_t>& candidates) {
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto runtime = [&](size_t i) { return runtimes[candidates[i]]; };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return runtime(a) < runtime(b); });
  const double last = std::max<double>(1, static_cast<double>(order.size()) - 1);
  std::vector<float> ranks(order.size());
  for (size_t first = 0, end = 0; first < order.size(); first = end) {
    while (end < order.size() && runtime(order[end]) == runtime(order[first])) ++end;
    const auto rank = static_cast<float>(static_cast<double>(first + end - 1) / 2 / last);
    for (size_t i = first; i < end; ++i) ranks[order[i]] = rank;
  }
  return ranks;
}

}  // namespace

worker::Scores score_layouts_by_trees(const worker::LoadedGroup& loaded, const XgboostSettings& settings, uint64_t seed,
                                      int64_t threads) {
  const auto& layout = loaded.group.layout;
  models::BoosterSettings booster_settings;
  booster_settings.base_score = 0.5;
  booster_settings.seed = static_cast<int64_t>(seed);
  booster_settings.threads = threads;
  auto training = one_hot_rows(layout, loaded.train, threads);
  training.set_labels(ranks_of(loaded.group.runtimes, loaded.train));
  models::Booster booster(booster_settings, training);
  const int64_t rounds = settings.rounds > 0 ? settings.rounds : kRounds;
  for (int64_t round = 0; round < rounds; ++round) booster.update(training, round);
  const auto predicted = booster.predict(one_hot_rows(layout, loaded.evaluated, threads));
  return {{predicted.begin(), predicted.end()}, {}};
}

}  // namespace foretime::experiments
