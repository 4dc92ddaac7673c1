#include "sharding/plan_report.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "sharding/cost.h"

namespace foretime::sharding {
namespace {

/// (entry, part) that each rank trains on or evaluates.
std::vector<std::set<std::pair<int64_t, int64_t>>> held_pieces(const ShardPlan& plan, int ranks) {
  std::vector<std::set<std::pair<int64_t, int64_t>>> held(ranks);
  for (const auto& [piece, trainers] : plan.trainers())
    for (const int rank : trainers) held[rank].insert(piece);
  for (size_t e = 0; e < plan.eval_parts.size(); ++e)
    for (size_t part = 0; part < plan.eval_parts[e].size(); ++part)
      held[plan.eval_parts[e][part]].insert({static_cast<int64_t>(e), static_cast<int64_t>(part)});
  return held;
}

void add_memory(const DatasetIndex& dataset, const ShardPlan& plan, const configs::Settings& settings,
                PlanReport& report) {
  std::vector<ResidentBytes> bytes;
  for (const auto& entry : dataset.entries) bytes.push_back(estimate_resident_bytes(entry.header, settings));
  double sum = 0;
  for (const auto& pieces : held_pieces(plan, report.ranks)) {
    double resident = 0, sample = 0;
    for (const auto& [entry, part] : pieces) {
      const auto& own = bytes[entry];
      resident += own.divided / dataset[entry].parts + own.whole;
      sample = std::max(sample, own.sample);
    }
    report.bytes_max = std::max(report.bytes_max, resident + sample);
    sum += resident + sample;
  }
  report.bytes_mean = sum / report.ranks;
  int64_t copies = 0;
  for (const auto& [piece, trainers] : plan.trainers()) copies += std::ssize(trainers);
  if (report.pieces > 0) report.copies = static_cast<double>(copies) / report.pieces;
}

void add_steps(const DatasetIndex& dataset, const ShardPlan& plan, uint64_t seed, PlanReport& report) {
  report.steps = step_costs(dataset, plan, report.ranks, seed);
  double mean_sum = 0, alone_sum = 0, heaviest_sum = 0, bound_sum = 0, heaviest_sample = 0;
  for (const auto& step : report.steps) {
    const double mean = step.total / report.ranks;
    mean_sum += mean;
    alone_sum += step.alone / report.ranks;
    heaviest_sum += step.heaviest_rank;
    bound_sum += std::max(mean, step.heaviest_sample);
    heaviest_sample = std::max(heaviest_sample, step.heaviest_sample);
    if (mean > 0) report.worst_step = std::max(report.worst_step, step.heaviest_rank / mean - 1);
  }
  if (mean_sum == 0) return;
  report.repeated = std::max(0.0, mean_sum / alone_sum - 1);
  report.speed_up = report.ranks * alone_sum / heaviest_sum;
  report.step_imbalance = heaviest_sum / mean_sum - 1;
  report.step_bound = bound_sum / mean_sum - 1;
  report.heaviest_sample_share = heaviest_sample / (mean_sum / report.steps.size());
}

}  // namespace

StepCost batch_cost(const DatasetIndex& dataset, const ShardPlan& plan, int ranks, uint64_t seed, int64_t batch) {
  FORETIME_CHECK(plan.batches_per_epoch > 0, "an epoch without batches has no costs");
  const int64_t epoch = batch / plan.batches_per_epoch, position = batch % plan.batches_per_epoch;
  const uint64_t key = epoch_key(seed, epoch);
  std::map<std::pair<int, int64_t>, double> samples;  // samples of each rank and entry
  std::map<int64_t, double> all;                      // samples of each entry
  StepCost step;
  for (size_t slot = 0; slot < plan.slots.size(); ++slot) {
    if (position >= plan.slots[slot].samples) continue;
    const auto sample = plan.sample_at(slot, position, key);
    ++samples[{plan.slot_rank[slot], sample.entry}];
    ++all[sample.entry];
    step.heaviest_sample = std::max(step.heaviest_sample, dataset[sample.entry].sample_cost);
  }
  std::vector<double> cost(ranks);
  for (const auto& [place, count] : samples) {
    const double own = dataset[place.second].cost_of(count);
    cost[place.first] += own;
    step.total += own;
  }
  for (const auto& [entry, count] : all) step.alone += dataset[entry].cost_of(count);
  step.heaviest_rank = *std::ranges::max_element(cost);
  return step;
}

std::vector<StepCost> step_costs(const DatasetIndex& dataset, const ShardPlan& plan, int ranks, uint64_t seed,
                                 int64_t limit) {
  std::vector<StepCost> steps;
  for (int64_t t = 0; t < std::min(limit, plan.batches_per_epoch); ++t)
    steps.push_back(batch_cost(dataset, plan, ranks, seed, t));
  return steps;
}

PlanReport report_plan(const DatasetIndex& dataset, const ShardPlan& plan, const configs::Settings& settings,
                       int ranks) {
  PlanReport report;
  report.ranks = ranks;
  report.slots = plan.slots.size();
  report.batches = plan.batches_per_epoch;
  report.buckets = std::ssize(plan.buckets) - 1;
  report.imbalance = plan.imbalance;
  std::vector<bool> busy(ranks);
  for (size_t slot = 0; slot < plan.slots.size(); ++slot) {
    report.samples += plan.slots[slot].samples;
    if (plan.slots[slot].samples > 0) busy[plan.slot_rank[slot]] = true;
  }
  report.idle_ranks = std::ranges::count(busy, false);
  for (const int64_t e : dataset.with_role(Role::train)) {
    const int64_t parts = dataset[e].parts;
    report.pieces += parts;
    if (parts > 1) ++report.cut_groups;
  }
  const int64_t places = report.batches * report.slots;
  if (places > 0) report.padding = 1 - static_cast<double>(report.samples) / places;
  add_steps(dataset, plan, settings.trainer.seed, report);
  add_memory(dataset, plan, settings, report);
  return report;
}

}  // namespace foretime::sharding
