#include "worker/evaluation/scoring.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "comm/communicator.h"
#include "data/graphs/group.h"
#include "metrics/tie_thresholds.h"
#include "models/safetensors.h"

namespace foretime::worker {
namespace {

using Json = nlohmann::json;

std::vector<int64_t> spread(const std::vector<int64_t>& ids, int64_t most) {
  const auto count = std::ssize(ids);
  if (count <= most) return ids;
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < most; ++i) chosen.push_back(ids[i * count / most]);
  return chosen;
}

std::pair<double, double> mean_and_deviation(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / values.size();
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / values.size())};
}

/// The number of candidates whose pools are kept at once.
constexpr size_t kCandidatesAtOnce = 8192;

bool pools(const configs::Settings& settings) { return settings.segments.stale == Stale::pools; }

}  // namespace

Scorer with_ties(Scorer scorer, TieThresholds thresholds) {
  if (thresholds.empty()) return scorer;
  return [scorer = std::move(scorer), thresholds = std::move(thresholds)](const LoadedGroup& loaded,
                                                                          const std::vector<int64_t>& candidates) {
    auto scores = scorer(loaded, candidates);
    const auto found = thresholds.find(data::graph_fingerprint(loaded.group));
    if (found == thresholds.end() || found->second.empty()) return scores;
    for (const double score : scores.scores) scores.levels.push_back(metrics::level_of(found->second, score));
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
    for (size_t i = 0; i < joined.size(); ++i) joined[i] += of_members.back()[i] / scorers.size();
  }
  const auto [mean, deviation] = mean_and_deviation(joined);
  std::vector<double> scores(candidates.size());
  for (size_t fold = 0; fold < scorers.size(); ++fold) {
    const auto [own_mean, own_deviation] = mean_and_deviation(of_members[fold]);
    const double scale = own_deviation > 0 ? deviation / own_deviation : 0;
    for (size_t i = 0; i < candidates.size(); ++i)
      if (loaded.folds[candidates[i]] == fold) scores[i] = mean + (of_members[fold][i] - own_mean) * scale;
  }
  return scores;
}

TieThresholds fit_tie_thresholds(const std::vector<Scorer>& scorers, int64_t candidates, const ShardedData& data) {
  auto& comm = data.comm;
  Json own = Json::array();
  comm::run_together(comm, [&] {
    for (const int64_t entry : data.index.with_role(sharding::Role::train)) {
      if (data.plan.eval_rank(entry) != comm.rank() || data.index.entries[entry].parts > 1) continue;
      const auto& loaded = data.store.get(entry);
      auto ids = spread(loaded.train, candidates);
      std::erase_if(ids, [&](int64_t c) { return std::isinf(loaded.group.runtimes[c]); });
      std::vector<double> runtimes;
      for (const int64_t c : ids) runtimes.push_back(loaded.group.runtimes[c]);
      const auto thresholds = metrics::level_thresholds(out_of_fold_scores(scorers, loaded, ids), runtimes);
      if (!thresholds.empty()) own.push_back({data::graph_fingerprint(loaded.group), thresholds});
    }
  });
  // CBOR keeps every bit of a number, and a threshold of a model that has diverged, which JSON cannot say.
  const auto packed = Json::to_cbor(own);
  TieThresholds all;
  for (const auto& bytes : comm.all_gather_bytes(std::string(packed.begin(), packed.end())))
    for (const auto& item : Json::from_cbor(bytes))
      all.emplace(item[0].get<uint64_t>(), item[1].get<std::vector<double>>());
  return all;
}

ScoringOptions scoring_options(const TrainingState& state, torch::Device device) {
  return {.settings = state.settings,
          .targets = state.targets,
          .tie_thresholds = state.tie_thresholds,
          .device = device,
          .max_states = state.settings.trainer.eval_states};
}

SegmentScorer::SegmentScorer(std::shared_ptr<models::CostModel> model, const ScoringOptions& options)
    : model_(std::move(model)),
      settings_(options.settings),
      targets_(options.targets),
      device_(options.device),
      max_states_(options.max_states),
      on_scored_(options.on_scored) {}

bool SegmentScorer::scores_segments() const {
  return settings_.sampler.max_segment_nodes > 0 && settings_.segments.stale != Stale::full_forward;
}

Scores SegmentScorer::score(const LoadedGroup& loaded, const std::vector<int64_t>& candidates) const {
  Scores all;
  for (size_t first = 0; first < candidates.size(); first += kCandidatesAtOnce) {
    const auto begin = candidates.begin() + first;
    const std::vector<int64_t> some(begin, begin + std::min(kCandidatesAtOnce, candidates.size() - first));
    const auto scores = finish(loaded.group, some, score_parts(loaded, some, 1, {0}));
    all.scores.insert(all.scores.end(), scores.scores.begin(), scores.scores.end());
    all.predicted.insert(all.predicted.end(), scores.predicted.begin(), scores.predicted.end());
    if (on_scored_) on_scored_(some.size());
  }
  return all;
}

torch::Tensor SegmentScorer::score_parts(const LoadedGroup& loaded, const std::vector<int64_t>& candidates,
                                         int64_t parts, const std::vector<int64_t>& which) const {
  const EvaluationMode mode(*model_);
  const auto distinct = data::distinct_candidates(loaded.group, candidates);
  const auto& segments = *loaded.segments;
  torch::Tensor sum;
  for (const int64_t part : which) {
    const auto [first, end] = sharding::part_segments(segments.count(), parts, part);
    for (int64_t s = first; s < end; ++s) {
      const auto values = segment(loaded.group, distinct.ids, segments[s]);
      sum = sum.defined() ? combined(sum, values) : values;
    }
  }
  return sum.index_select(0, torch::tensor(distinct.place));
}

torch::Tensor SegmentScorer::segment(const data::Group& group, const std::vector<int64_t>& candidates,
                                     std::span<const int32_t> nodes) const {
  const auto piece = induced_piece(group, model_->plan_request(), nodes);
  std::vector<torch::Tensor> values;
  for_each_plan(piece.group, piece.source, candidates, max_states_, device_, [&](const models::PlanTensors& plan) {
    const auto of_plan =
        pools(settings_) ? model_->combine_pools(model_->pool(plan)) : model_->score(plan).unsqueeze(1);
    values.push_back(of_plan.to(torch::kCPU));
  });
  // Scores are added up in float64, so that the order of segments does not matter.
  return pools(settings_) ? torch::cat(values) : torch::cat(values).to(torch::kDouble);
}

torch::Tensor SegmentScorer::combined(const torch::Tensor& a, const torch::Tensor& b) const {
  return pools(settings_) ? model_->combine_pools(torch::stack({a, b}, 1)) : a + b;
}

Scores SegmentScorer::merge(const data::Group& group, const std::vector<int64_t>& candidates,
                            const std::vector<torch::Tensor>& of_parts) const {
  torch::Tensor sum;
  for (const auto& part : of_parts) sum = sum.defined() ? combined(sum, part) : part;
  return finish(group, candidates, sum);
}

Scores SegmentScorer::finish(const data::Group& group, const std::vector<int64_t>& candidates,
                             const torch::Tensor& sum) const {
  const EvaluationMode mode(*model_);
  const auto scores = (pools(settings_) ? model_->score_pools(sum.to(device_)) : sum.squeeze(1))
                          .to(torch::kCPU, torch::kDouble)
                          .contiguous();
  return with_runtimes({scores.data_ptr<double>(), scores.data_ptr<double>() + scores.numel()}, group, candidates,
                       settings_.loss, targets_);
}

Scorer scorer_for(std::shared_ptr<models::CostModel> model, const ScoringOptions& options) {
  auto whole = model_scorer(model, options.targets, options.settings.loss, options.device, options.max_states,
                            options.on_scored);
  const SegmentScorer cut(std::move(model), options);
  if (!cut.scores_segments()) return with_ties(std::move(whole), options.tie_thresholds);
  const auto either = [whole = std::move(whole), cut](const LoadedGroup& loaded,
                                                      const std::vector<int64_t>& candidates) {
    return loaded.segments ? cut.score(loaded, candidates) : whole(loaded, candidates);
  };
  return with_ties(either, options.tie_thresholds);
}

Evaluation evaluate_model(const std::shared_ptr<models::CostModel>& model, const ScoringOptions& options,
                          const std::vector<std::string>& sets, const ShardedData& data) {
  const SegmentScorer cut(model, options);
  std::map<int64_t, Scores> spanning;
  if (cut.scores_segments()) spanning = score_spanning(cut, sets, data);
  return evaluate(scorer_for(model, options), sets, data, spanning);
}

std::map<int64_t, Scores> score_spanning(const SegmentScorer& scorer, const std::vector<std::string>& sets,
                                         const ShardedData& data) {
  auto& comm = data.comm;
  const auto& entries = data.index.entries;
  const auto wanted = [&](size_t entry) {
    const auto& item = entries[entry];
    return item.parts > 1 && std::find(sets.begin(), sets.end(), set_of(item.role)) != sets.end();
  };
  models::NamedTensors own;
  bool any = false;
  for (size_t entry = 0; entry < entries.size(); ++entry) {
    if (!wanted(entry)) continue;
    any = true;
    const auto& ranks = data.plan.eval_parts[entry];
    std::vector<int64_t> parts;
    for (size_t part = 0; part < ranks.size(); ++part)
      if (ranks[part] == comm.rank()) parts.push_back(part);
    if (parts.empty()) continue;
    const auto& loaded = data.store.get(entry);
    if (loaded.evaluated.empty()) continue;
    own.emplace_back(std::to_string(entry), scorer.score_parts(loaded, loaded.evaluated, ranks.size(), parts));
  }
  std::map<int64_t, Scores> scores;
  if (!any) return scores;
  std::map<int64_t, std::vector<torch::Tensor>> of_parts;
  for (const auto& bytes : comm.all_gather_bytes(models::serialize_safetensors(own))) {
    for (const auto& [name, tensor] : models::parse_safetensors(bytes, "scores of another rank").tensors) {
      const int64_t entry = parse_number<int64_t>(name).value();
      if (data.plan.eval_rank(entry) == comm.rank()) of_parts[entry].push_back(tensor);
    }
  }
  for (const auto& [entry, tensors] : of_parts) {
    const auto& loaded = data.store.get(entry);
    scores[entry] = scorer.merge(loaded.group, loaded.evaluated, tensors);
  }
  return scores;
}

}  // namespace foretime::worker
