#include "worker/evaluation/evaluator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "configs/metrics.h"
#include "data/graphs/contest.h"
#include "data/graphs/group.h"
#include "metrics/metric_table.h"

namespace foretime::worker {
namespace {

using Json = nlohmann::json;

/// Returns the metrics that evaluations report, in the order of the reduced tensor, which is equal on every rank.
std::vector<metrics::Metric> reported_metrics() {
  std::vector<metrics::Metric> reported;
  std::ranges::copy_if(metrics::all_metrics(), std::back_inserter(reported), &metrics::Metric::of_runs);
  return reported;
}
constexpr const char* kSets[] = {"holdout", "valid", "test"};

/// One group's evaluation on its way to rank 0.
Json to_json(const GroupEvaluation& g) {
  return {g.set,      g.group,         static_cast<int>(g.unit), g.candidates,
          g.runtimes, g.scores.scores, g.scores.predicted,       g.metrics,
          g.ids,      g.scores.levels, g.scores.failures};
}

std::vector<double> values_of(const torch::Tensor& tensor) {
  const auto values = tensor.contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

GroupEvaluation from_json(const Json& j) {
  return {j[0], j[1], static_cast<data::RuntimeUnit>(j[2].get<int>()), j[3], j[4], {j[5], j[6], j[9], j[10]},
          j[7], j[8]};
}

}  // namespace

std::vector<double> oracle_runtimes(const data::Group& group, const std::vector<int64_t>& candidates) {
  const auto hashes = data::configuration_hashes(group);
  std::unordered_map<uint64_t, std::pair<double, int64_t>> measured;  // sum and count of successful measurements
  for (int64_t c = 0; c < group.candidates; ++c) {
    auto& [sum, count] = measured[hashes[c]];
    if (!std::isfinite(group.runtimes[c])) continue;
    sum += group.runtimes[c];
    ++count;
  }
  if (std::ssize(measured) == group.candidates) return {};
  std::vector<double> means;
  for (const int64_t c : candidates) {
    const auto& [sum, count] = measured.at(hashes[c]);
    means.push_back(count > 0 ? sum / count : group.runtimes[c]);
  }
  return means;
}

std::string set_of(sharding::Role role) {
  return role == sharding::Role::train ? "holdout" : sharding::to_string(role);
}

Scores with_runtimes(std::vector<double> scores, const data::Group& group, const std::vector<int64_t>& candidates,
                     const configs::LossSettings& loss, const models::TargetTransform& targets) {
  Scores result{std::move(scores), {}};
  if (!configs::predicts_runtimes(loss)) return result;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const double flop = group.flops.empty() ? 0.0 : group.flops[candidates[i]];
    result.predicted.push_back(targets.to_runtime(result.scores[i], flop));
  }
  return result;
}

Scorer model_scorer(std::shared_ptr<models::CostModel> model, const models::TargetTransform& targets,
                    const configs::LossSettings& loss, torch::Device device, int64_t max_states,
                    std::function<void(int64_t)> on_scored) {
  return [model = std::move(model), targets, loss, device, max_states, on_scored = std::move(on_scored)](
             const LoadedGroup& loaded, const std::vector<int64_t>& candidates) {
    const data::Group& group = loaded.group;
    const EvaluationMode mode(*model);
    const auto distinct = data::distinct_candidates(group, candidates);
    const auto source = loaded.plan_source ? loaded.plan_source : plans::make_plan_source(group, model->plan_request());
    std::vector<torch::Tensor> embedded;
    for_each_plan(group, source, distinct.ids, max_states, device, [&](const models::PlanTensors& plan) {
      embedded.push_back(model->embed(plan));
      if (on_scored) on_scored(embedded.back().size(0));
    });
    std::vector<double> all, failures;
    if (!embedded.empty()) {
      // A configuration that was measured twice is two candidates to a model that compares them.
      const auto place = torch::tensor(distinct.place).to(embedded.front().device());
      const auto outputs =
          model->outputs_embedded(torch::cat(embedded).index_select(0, place), {0, std::ssize(candidates)})
              .to(torch::kCPU, torch::kDouble);
      const bool tells = outputs.dim() == 2;
      all = values_of(tells ? outputs.select(1, 0) : outputs);
      if (tells) failures = values_of(torch::sigmoid(outputs.select(1, 1)));
    }
    auto scores = with_runtimes(std::move(all), group, candidates, loss, targets);
    scores.failures = std::move(failures);
    return scores;
  };
}

Scorer constant_scorer(double runtime) {
  return [runtime](const LoadedGroup&, const std::vector<int64_t>& candidates) {
    return Scores{std::vector<double>(candidates.size(), runtime), std::vector<double>(candidates.size(), runtime)};
  };
}

std::map<std::string, double> measure(const GroupEvaluation& group, data::CandidateKind kind) {
  return metrics::group_metrics(group.scores, group.runtimes, data::contest_of(kind));
}

GroupEvaluation evaluate_group(const Scorer& scorer, const std::string& set, const LoadedGroup& loaded,
                               std::vector<int64_t> candidates) {
  const data::Group& group = loaded.group;
  GroupEvaluation result{.set = set, .group = group.name, .unit = group.unit};
  result.scores = scorer(loaded, candidates);
  result.candidates = std::move(candidates);
  if (!group.candidate_ids.empty())
    for (const int64_t c : result.candidates) result.ids.push_back(group.candidate_ids[c]);
  if (!group.labelled()) return result;
  for (const int64_t c : result.candidates) result.runtimes.push_back(group.runtimes[c]);
  result.metrics = measure(result, group.kind);
  if (const auto oracle = oracle_runtimes(group, result.candidates); !oracle.empty()) {
    const double ceiling = metrics::kendall_tau(oracle, result.runtimes);
    if (!std::isnan(ceiling)) result.metrics["noise_ceiling_tau"] = ceiling;
  }
  return result;
}

std::map<std::string, double> mean_metrics(const std::vector<GroupEvaluation>& own, comm::Communicator& comm) {
  const auto reported = reported_metrics();
  std::vector<double> sums(2 * std::size(kSets) * reported.size());  // [sets, metrics, 2]: sum, count
  const auto place = [&](size_t set, size_t metric) { return 2 * (set * reported.size() + metric); };
  for (const auto& group : own) {
    const size_t set = std::find(std::begin(kSets), std::end(kSets), group.set) - std::begin(kSets);
    for (size_t m = 0; m < reported.size(); ++m) {
      const auto found = group.metrics.find(std::string(reported[m].name));
      if (found == group.metrics.end()) continue;
      const auto ran = std::ranges::count_if(group.runtimes, [](double time) { return std::isfinite(time); });
      const double count = reported[m].over_candidates() ? ran : 1.0;
      const bool root = reported[m].mean == metrics::Mean::root_of_candidates;
      sums[place(set, m)] += (root ? found->second * found->second : found->second) * count;
      sums[place(set, m) + 1] += count;
    }
  }
  auto reduced = torch::tensor(sums, torch::kDouble).to(comm.device());
  comm.all_reduce(reduced)->wait();
  const auto totals = reduced.to(torch::kCPU);
  std::map<std::string, double> means;
  for (size_t s = 0; s < std::size(kSets); ++s) {
    for (size_t m = 0; m < reported.size(); ++m) {
      const double* total = totals.data_ptr<double>() + place(s, m);
      if (total[1] == 0) continue;
      const double mean = total[0] / total[1];
      const bool root = reported[m].mean == metrics::Mean::root_of_candidates;
      means[fmt::format("{}/{}", kSets[s], reported[m].name)] = root ? std::sqrt(mean) : mean;
    }
  }
  return means;
}

Evaluation evaluate(const Scorer& scorer, const std::vector<std::string>& sets, const ShardedData& data,
                    const std::map<int64_t, Scores>& known) {
  auto& comm = data.comm;
  const auto& entries = data.index.entries;
  std::vector<GroupEvaluation> own;
  for (size_t entry = 0; entry < entries.size(); ++entry) {
    if (data.plan.eval_rank(entry) != comm.rank()) continue;
    const auto set = set_of(entries[entry].role);
    if (std::find(sets.begin(), sets.end(), set) == sets.end()) continue;
    const auto& loaded = data.store.get(entry);
    if (loaded.evaluated.empty()) continue;
    comm.keep_alive();
    const auto there = known.find(entry);
    const Scorer known_scores = [&](const LoadedGroup&, const std::vector<int64_t>&) { return there->second; };
    own.push_back(evaluate_group(there == known.end() ? scorer : known_scores, set, loaded, loaded.evaluated));
  }

  Evaluation result;
  result.metrics = mean_metrics(own, comm);
  Json rows = Json::array();
  for (const auto& group : own) rows.push_back(to_json(group));
  // CBOR and not text: a model that has diverged predicts infinite run times, which JSON cannot say.
  const auto packed = Json::to_cbor(rows);
  const auto gathered = comm.all_gather_bytes(std::string(packed.begin(), packed.end()));
  if (comm.rank() != 0) return result;
  for (const auto& bytes : gathered)
    for (const auto& row : Json::from_cbor(bytes)) result.groups.push_back(from_json(row));
  std::sort(result.groups.begin(), result.groups.end(),
            [](const auto& a, const auto& b) { return std::tie(a.set, a.group) < std::tie(b.set, b.group); });
  return result;
}

std::string rankings_csv(const Evaluation& evaluation) {
  std::string csv = "set,group,rank,candidate,id,score,predicted_runtime,runtime,level,failure\n";
  for (const auto& group : evaluation.groups) {
    std::vector<size_t> order(group.candidates.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return group.scores.scores[a] < group.scores.scores[b]; });
    for (size_t place = 0; place < order.size(); ++place) {
      const size_t i = order[place];
      csv += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", group.set, csv_field(group.group), place,
                         group.candidates[i], group.ids.empty() ? "" : csv_field(group.ids[i]), group.scores.scores[i],
                         group.scores.predicted.empty() ? "" : fmt::format("{}", group.scores.predicted[i]),
                         group.runtimes.empty() ? "" : fmt::format("{}", group.runtimes[i]),
                         group.scores.levels.empty() ? "" : fmt::format("{}", group.scores.levels[i]),
                         group.scores.failures.empty() ? "" : fmt::format("{}", group.scores.failures[i]));
    }
  }
  return csv;
}

void for_each_plan(const data::Group& group, const std::shared_ptr<const plans::PlanSource>& source,
                   const std::vector<int64_t>& candidates, int64_t max_states, torch::Device device,
                   const std::function<void(const models::PlanTensors& plan)>& visit) {
  const bool gradients = source->request.sharing == plans::Sharing::none;
  plans::for_each_plan(group, source, candidates, max_states, [&](const plans::MessagePlan& plan) {
    visit(models::to_tensors(plan, {.device = device, .gradients = gradients}));
  });
}

}  // namespace foretime::worker
