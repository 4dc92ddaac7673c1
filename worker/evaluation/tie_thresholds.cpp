#include "worker/evaluation/tie_thresholds.h"

#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "comm/agree.h"
#include "models/metrics/tie_thresholds.h"

namespace foretime::worker {
namespace {

using Json = nlohmann::json;

std::vector<int64_t> spread(const std::vector<int64_t>& ids, int64_t most) {
  const auto count = static_cast<int64_t>(ids.size());
  if (count <= most) return ids;
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < most; ++i) chosen.push_back(ids[static_cast<size_t>(i * count / most)]);
  return chosen;
}

std::pair<double, double> mean_and_deviation(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / static_cast<double>(values.size()))};
}

}  // namespace

Scorer with_ties(Scorer scorer, TieThresholds thresholds) {
  if (thresholds.empty()) return scorer;
  return [scorer = std::move(scorer), thresholds = std::move(thresholds)](const LoadedGroup& loaded,
                                                                          const std::vector<int64_t>& candidates) {
    auto scores = scorer(loaded, candidates);
    const auto found = thresholds.find(data::graph_fingerprint(loaded.group));
    if (found == thresholds.end() || found->second.empty()) return scores;
    for (const double score : scores.scores) scores.levels.push_back(models::level_of(found->second, score));
    return scores;
  };
}

std::vector<double> out_of_fold_scores(const std::vector<Scorer>& scorers, const LoadedGroup& loaded,
                                       const std::vector<int64_t>& candidates) {
  if (scorers.size() == 1 || candidates.empty()) return scorers.front()(loaded, candidates).scores;
  std::vector<std::vector<double>> of_members;
  std::vector<double> joined(candidates.size());
  for (const auto& scorer : scorers) {
    of_members.push_back(scorer(loaded, candidates).scores);
    for (size_t i = 0; i < joined.size(); ++i) joined[i] += of_members.back()[i] / static_cast<double>(scorers.size());
  }
  const auto [mean, deviation] = mean_and_deviation(joined);
  std::vector<double> scores(candidates.size());
  for (size_t fold = 0; fold < scorers.size(); ++fold) {
    const auto [own_mean, own_deviation] = mean_and_deviation(of_members[fold]);
    const double scale = own_deviation > 0 ? deviation / own_deviation : 0;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (loaded.folds[static_cast<size_t>(candidates[i])] == fold)
        scores[i] = mean + (of_members[fold][i] - own_mean) * scale;
    }
  }
  return scores;
}

TieThresholds fit_tie_thresholds(const std::vector<Scorer>& scorers, int64_t candidates, const ShardedData& data) {
  auto& comm = data.comm;
  Json own = Json::array();
  comm::run_together(comm, [&] {
    for (const int64_t entry : data.index.with_role(sharding::Role::train)) {
      if (data.plan.eval_rank(entry) != comm.rank() || data.index.entries[static_cast<size_t>(entry)].parts > 1)
        continue;
      const auto& loaded = data.store.get(entry);
      const auto ids = spread(loaded.train, candidates);
      std::vector<double> runtimes;
      for (const int64_t c : ids) runtimes.push_back(loaded.group.runtimes[c]);
      const auto thresholds = models::level_thresholds(out_of_fold_scores(scorers, loaded, ids), runtimes);
      if (!thresholds.empty()) own.push_back({data::graph_fingerprint(loaded.group), thresholds});
    }
  });
  // CBOR keeps every bit of a number, and a threshold of a model that has diverged, which JSON cannot say.
  const auto packed = Json::to_cbor(own);
  TieThresholds all;
  for (const auto& bytes : comm.all_gather_bytes(std::string(packed.begin(), packed.end()))) {
    for (const auto& item : Json::from_cbor(bytes))
      all.emplace(item[0].get<uint64_t>(), item[1].get<std::vector<double>>());
  }
  return all;
}

}  // namespace foretime::worker
