#include "sharding/plan_report.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/read_input.h"
#include "base/text.h"
#include "configs/load.h"
#include "sharding/cost.h"

namespace foretime::sharding {
namespace {

/// (entry, part) that each rank trains on or evaluates.
std::vector<std::set<std::pair<int64_t, int64_t>>> held_pieces(const ShardPlan& plan, int ranks) {
  std::vector<std::set<std::pair<int64_t, int64_t>>> held(static_cast<size_t>(ranks));
  for (const auto& [piece, trainers] : plan.trainers()) {
    for (const int rank : trainers) held[static_cast<size_t>(rank)].insert(piece);
  }
  for (size_t e = 0; e < plan.eval_parts.size(); ++e) {
    for (size_t part = 0; part < plan.eval_parts[e].size(); ++part)
      held[static_cast<size_t>(plan.eval_parts[e][part])].insert({static_cast<int64_t>(e), static_cast<int64_t>(part)});
  }
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
      const auto& own = bytes[static_cast<size_t>(entry)];
      resident += own.divided / static_cast<double>(dataset[entry].parts) + own.whole;
      sample = std::max(sample, own.sample);
    }
    report.bytes_max = std::max(report.bytes_max, resident + sample);
    sum += resident + sample;
  }
  report.bytes_mean = sum / report.ranks;
  int64_t copies = 0;
  for (const auto& [piece, trainers] : plan.trainers()) copies += static_cast<int64_t>(trainers.size());
  if (report.pieces > 0) report.copies = static_cast<double>(copies) / static_cast<double>(report.pieces);
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
  report.heaviest_sample_share = heaviest_sample / (mean_sum / static_cast<double>(report.steps.size()));
}

}  // namespace

StepCost batch_cost(const DatasetIndex& dataset, const ShardPlan& plan, int ranks, uint64_t seed, int64_t batch) {
  const int64_t epoch = batch / plan.batches_per_epoch, position = batch % plan.batches_per_epoch;
  const uint64_t key = epoch_key(seed, epoch);
  std::map<std::pair<int, int64_t>, double> samples;  // of each rank and entry
  std::map<int64_t, double> all;                      // of each entry
  StepCost step;
  for (size_t slot = 0; slot < plan.slots.size(); ++slot) {
    if (position >= plan.slots[slot].samples) continue;
    const auto sample = plan.sample_at(static_cast<int64_t>(slot), position, key);
    ++samples[{plan.slot_rank[slot], sample.entry}];
    ++all[sample.entry];
    step.heaviest_sample = std::max(step.heaviest_sample, dataset[sample.entry].sample_cost);
  }
  std::vector<double> cost(static_cast<size_t>(ranks));
  for (const auto& [place, count] : samples) {
    const double own = dataset[place.second].cost_of(count);
    cost[static_cast<size_t>(place.first)] += own;
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
  report.slots = static_cast<int64_t>(plan.slots.size());
  report.batches = plan.batches_per_epoch;
  report.buckets = static_cast<int64_t>(plan.buckets.size()) - 1;
  report.imbalance = plan.imbalance;
  std::vector<bool> busy(static_cast<size_t>(ranks));
  for (size_t slot = 0; slot < plan.slots.size(); ++slot) {
    report.samples += plan.slots[slot].samples;
    if (plan.slots[slot].samples > 0) busy[static_cast<size_t>(plan.slot_rank[slot])] = true;
  }
  report.idle_ranks = static_cast<int>(std::ranges::count(busy, false));
  for (const int64_t e : dataset.with_role(Role::train)) {
    const int64_t parts = dataset[e].parts;
    report.pieces += parts;
    if (parts > 1) ++report.cut_groups;
  }
  const int64_t places = report.batches * report.slots;
  if (places > 0) report.padding = 1 - static_cast<double>(report.samples) / static_cast<double>(places);
  add_steps(dataset, plan, settings.trainer.seed, report);
  add_memory(dataset, plan, settings, report);
  return report;
}

namespace {

using Json = nlohmann::json;

double fastest_all_reduce(int ranks, double bytes, const Link& link) {
  return std::min(ring_all_reduce_seconds(ranks, bytes, link), tree_all_reduce_seconds(ranks, bytes, link));
}

Json read_json(const std::filesystem::path& path) {
  auto json = Json::parse(read_input(path), nullptr, false);
  if (!json.is_object()) throw DataError("{}: no JSON; expected the folder of a run of foretime train", path.string());
  return json;
}

/// True if the run did something else than training between two reports.
bool interrupted(int64_t from, int64_t to, int64_t every) { return every > 0 && (to - 1) / every * every >= from; }

}  // namespace

double ring_all_reduce_seconds(int ranks, double bytes, const Link& link) {
  if (ranks <= 1) return 0;
  return 2.0 * (ranks - 1) * link.latency + 2.0 * (ranks - 1) / ranks * bytes / link.bandwidth;
}

double tree_all_reduce_seconds(int ranks, double bytes, const Link& link) {
  if (ranks <= 1) return 0;
  return 2 * std::ceil(std::log2(ranks)) * link.latency + 2 * bytes / link.bandwidth;
}

double all_reduce_seconds(int ranks, double bytes, const Cluster& cluster) {
  const int inside = std::min(ranks, cluster.ranks_per_host);
  const int hosts = (ranks + cluster.ranks_per_host - 1) / cluster.ranks_per_host;
  return fastest_all_reduce(inside, bytes, cluster.inside) + fastest_all_reduce(hosts, bytes, cluster.between);
}

Reduction reduction_of(const configs::CommSettings& settings) {
  const bool bfloat16 = settings.gradient_dtype == configs::Precision::bfloat16;
  const bool mpi = settings.backend == configs::Backend::mpi;
  return {.exchange = mpi || bfloat16, .bfloat16 = bfloat16, .by_hosts = mpi && settings.hierarchical};
}

// As comm/algorithms/tree_sum.cpp decides.
constexpr double kLeastBytesSaved = 512 << 10;

double exchange_seconds(int ranks, double bytes, const Reduction& reduction, const Cluster& cluster) {
  if (ranks <= 1) return 0;
  const int inside = std::min(ranks, cluster.ranks_per_host);
  const int hosts = (ranks + cluster.ranks_per_host - 1) / cluster.ranks_per_host;
  const auto once = [&](int peers, double sent, const Link& link) {
    return link.latency + (peers - 1) * cluster.message_seconds + sent / link.bandwidth;
  };
  const double wire = reduction.bfloat16 ? bytes / 2 : bytes;
  if (hosts == 1) return 2 * once(ranks, wire * (ranks - 1) / ranks, cluster.inside);
  const bool by_hosts = reduction.by_hosts && std::has_single_bit(static_cast<unsigned>(inside)) &&
                        inside > (reduction.bfloat16 ? 2 : 1) && wire * (inside - 1) >= kLeastBytesSaved;
  if (!by_hosts) return 2 * once(ranks, wire * inside * (ranks - inside) / ranks, cluster.between);
  const double share = static_cast<double>(hosts - 1) / hosts;
  return 2 * once(inside, wire * (inside - 1) / inside, cluster.inside) + once(hosts, share * bytes, cluster.between) +
         once(hosts, share * wire, cluster.between);
}

Prediction predict_step(const PlanReport& report, const ComputeTime& compute, double gradient_bytes,
                        int64_t bucket_bytes, const Cluster& cluster, const Reduction& reduction) {
  const auto steps = static_cast<double>(std::max<size_t>(1, report.steps.size()));
  double heaviest = 0, total = 0, one_rank = 0;
  for (const auto& step : report.steps) {
    heaviest += step.heaviest_rank / steps;
    total += step.total / steps;
    one_rank += step.alone / steps;
  }
  Prediction found;
  found.ranks = report.ranks;
  const double slowest = heaviest * compute.seconds_per_cost;
  found.compute_seconds = slowest + compute.seconds_per_step;
  found.waiting_seconds = slowest - total / report.ranks * compute.seconds_per_cost;
  if (report.ranks > 1) {
    const double buckets = std::max(1.0, std::ceil(gradient_bytes / static_cast<double>(bucket_bytes)));
    const double bucket_seconds = reduction.exchange
                                      ? exchange_seconds(report.ranks, gradient_bytes / buckets, reduction, cluster)
                                      : all_reduce_seconds(report.ranks, gradient_bytes / buckets, cluster);
    found.reduce_seconds = buckets * bucket_seconds;
    const double hidden = cluster.overlap * cluster.backward_share * slowest;
    found.exposed_seconds = std::max(bucket_seconds, found.reduce_seconds - hidden);
    found.small_seconds = 2 * all_reduce_seconds(report.ranks, 24, cluster);
  }
  found.step_seconds = found.compute_seconds + found.exposed_seconds + found.small_seconds;
  const double alone = one_rank * compute.seconds_per_cost + compute.seconds_per_step;
  found.efficiency = found.step_seconds > 0 ? alone / (report.ranks * found.step_seconds) : 1;
  return found;
}

ComputeTime fit_compute(const std::vector<double>& costs, const std::vector<double>& steps,
                        const std::vector<double>& seconds) {
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  std::vector<double> a_step;
  for (size_t i = 0; i < costs.size(); ++i) a_step.push_back(costs[i] / steps[i]);
  const auto [least, most] = std::minmax_element(a_step.begin(), a_step.end());
  if (*most > 1.2 * *least) {
    const double cc = dot(costs, costs), cs = dot(costs, steps), ss = dot(steps, steps), ct = dot(costs, seconds),
                 st = dot(steps, seconds), determinant = cc * ss - cs * cs;
    const double by_cost = (ct * ss - st * cs) / determinant, by_step = (st * cc - ct * cs) / determinant;
    if (by_cost >= 0 && by_step >= 0) return {by_cost, by_step};
    if (by_cost < 0) return {0, st / ss};
  }
  return {dot(costs, seconds) / dot(costs, costs), 0};
}

ComputeTime measure_compute(const std::filesystem::path& run_directory) {
  const auto settings = configs::load_settings(run_directory / "config.yaml");
  const int ranks = read_json(run_directory / "environment.json").value("ranks", 1);
  const auto dataset = make_dataset_index(settings);
  const auto plan = make_shard_plan(dataset, settings, ranks);
  const auto path = run_directory / "metrics.jsonl";
  std::istringstream file(read_input(path));
  std::vector<double> costs, steps, seconds;
  int64_t step_before = -1;
  double seconds_before = 0;
  for (std::string line; std::getline(file, line);) {
    const auto json = Json::parse(line, nullptr, false);
    if (!json.is_object() || json.value("kind", "") != "train") continue;
    const int64_t step = json.at("step");
    const double now = json.at("seconds");
    // Where a run was continued, its clock started again.
    const bool usable = step_before >= 0 && step > step_before && now > seconds_before &&
                        !interrupted(step_before, step, settings.trainer.eval_every) &&
                        !interrupted(step_before, step, settings.checkpoint.every_steps);
    if (usable) {
      double cost = 0;
      const int64_t accumulation = settings.optimizer.accumulation;
      for (int64_t batch = step_before * accumulation; batch < step * accumulation; ++batch)
        cost += batch_cost(dataset, plan, ranks, settings.trainer.seed, batch).heaviest_rank;
      const auto count = static_cast<double>(step - step_before);
      costs.push_back(cost);
      steps.push_back(count);
      seconds.push_back(std::max(0.0, now - seconds_before - count * json.value("exposed_seconds", 0.0)));
    }
    step_before = step;
    seconds_before = now;
  }
  if (costs.size() < 2)
    throw DataError(
        "{}: {} intervals between reports without an evaluation or a checkpoint in them, expected "
        "at least 2: train with a smaller trainer.log_every",
        path.string(), costs.size());
  return fit_compute(costs, steps, seconds);
}

namespace {

using OrderedJson = nlohmann::ordered_json;

std::string percent(double value) { return fmt::format("{:.2f} %", 100 * value); }
std::string megabytes(double bytes) { return fmt::format("{:.1f} MB", bytes / 1e6); }
std::string milliseconds(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }

std::vector<int64_t> heaviest_entries(const DatasetIndex& dataset, size_t count) {
  auto entries = dataset.with_role(Role::train);
  std::ranges::stable_sort(entries, std::greater<>(), [&](int64_t e) { return dataset[e].sample_cost; });
  entries.resize(std::min(entries.size(), count));
  return entries;
}

double epoch_cost(const IndexEntry& entry) {
  return entry.sample_cost * static_cast<double>(entry.samples * entry.parts);
}

double epoch_cost(const DatasetIndex& dataset) {
  double sum = 0;
  for (const int64_t e : dataset.with_role(Role::train)) sum += epoch_cost(dataset[e]);
  return sum;
}

OrderedJson entry_json(const IndexEntry& entry, double total) {
  const auto& header = entry.header;
  return {{"name", header.name},
          {"nodes", header.nodes},
          {"edges", header.edges},
          {"configurable", header.configurable},
          {"candidates", header.candidates},
          {"parts", entry.parts},
          {"draws", entry.samples},
          {"draw_cost", entry.sample_cost},
          {"share", total > 0 ? epoch_cost(entry) / total : 0.0}};
}

OrderedJson prediction_json(const Prediction& found) {
  return {{"compute_seconds", found.compute_seconds},
          {"waiting_seconds", found.waiting_seconds},
          {"reduce_seconds", found.reduce_seconds},
          {"exposed_seconds", found.exposed_seconds},
          {"small_seconds", found.small_seconds},
          {"step_seconds", found.step_seconds},
          {"efficiency", found.efficiency}};
}

OrderedJson assignments_json(const DatasetIndex& dataset, const ShardPlan& plan) {
  auto training = plan.trainers();
  OrderedJson rows = OrderedJson::array();
  for (size_t e = 0; e < dataset.entries.size(); ++e) {
    for (size_t part = 0; part < plan.eval_parts[e].size(); ++part) {
      const auto& ranks = training[{static_cast<int64_t>(e), static_cast<int64_t>(part)}];
      rows.push_back({{"group", dataset.entries[e].header.name},
                      {"role", to_string(dataset.entries[e].role)},
                      {"part", part},
                      {"trained_by", std::vector<int>(ranks.begin(), ranks.end())},
                      {"evaluated_by", plan.eval_parts[e][part]}});
    }
  }
  return rows;
}

std::string remarks(const std::vector<PlanView>& views) {
  std::string text;
  for (const auto& view : views) {
    const auto& report = view.report;
    if (report.idle_ranks > 0) {
      text += fmt::format("{} ranks: {} of them have no draw: a batch has {} groups; raise sampler.groups_per_batch\n",
                          report.ranks, report.idle_ranks, view.groups_per_batch);
    } else if (report.step_bound > 0.02) {
      text += fmt::format(
          "{} ranks: the heaviest draw is {:.2f} of a rank's share of a step, so no plan is better than {}: "
          "raise sampler.groups_per_batch, or cut large graphs with sampler.max_segment_nodes\n",
          report.ranks, report.heaviest_sample_share, percent(report.step_bound));
    }
  }
  return text;
}

}  // namespace

std::string plan_text(const DatasetIndex& dataset, const std::vector<PlanView>& views) {
  const auto& first = views.front().report;
  auto text = fmt::format("{} training groups in {} parts ({} groups are cut), {} draws an epoch\n\n",
                          dataset.with_role(Role::train).size(), first.pieces, first.cut_groups, first.samples);
  std::vector<std::vector<std::string>> rows = {{"ranks", "batch", "batches", "padding", "imbalance", "by step",
                                                 "bound", "worst step", "heaviest draw", "memory", "mean", "copies",
                                                 "repeated", "speed-up"}};
  for (const auto& view : views) {
    const auto& report = view.report;
    rows.push_back({fmt::to_string(report.ranks), fmt::to_string(view.groups_per_batch), fmt::to_string(report.batches),
                    percent(report.padding), percent(report.imbalance), percent(report.step_imbalance),
                    percent(report.step_bound), percent(report.worst_step),
                    fmt::format("{:.2f}", report.heaviest_sample_share), megabytes(report.bytes_max),
                    megabytes(report.bytes_mean), fmt::format("{:.1f}", report.copies), percent(report.repeated),
                    fmt::format("{:.2f}", report.speed_up)});
  }
  text += format_table(rows);
  text +=
      "\nbatch: groups in a batch. imbalance: most cost of a rank in an epoch over the mean. by step: sum over steps "
      "of the"
      "\nslowest rank's cost over the mean's, which is what a run waits for. bound: the same where each step took as "
      "long as"
      "\nits heaviest draw or the mean. heaviest draw: over a rank's mean cost of a step. memory: of the fullest rank,"
      "\nestimated. copies: ranks that hold a training part. repeated: work that ranks do each for itself on states of "
      "one "
      "graph. speed-up: over one rank, without communication.\n";
  const auto notes = remarks(views);
  return notes.empty() ? text : text + "\n" + notes;
}

std::string heaviest_text(const DatasetIndex& dataset, size_t count) {
  std::vector<std::vector<std::string>> rows = {{"heaviest groups", "nodes", "edges", "configurable", "candidates",
                                                 "parts", "draws", "cost of a draw", "of all"}};
  const double total = epoch_cost(dataset);
  for (const int64_t e : heaviest_entries(dataset, count)) {
    const auto& entry = dataset[e];
    const auto& header = entry.header;
    rows.push_back({header.name, fmt::to_string(header.nodes), fmt::to_string(header.edges),
                    fmt::to_string(header.configurable), fmt::to_string(header.candidates), fmt::to_string(entry.parts),
                    fmt::to_string(entry.samples), fmt::format("{:.3g}", entry.sample_cost),
                    percent(total > 0 ? epoch_cost(entry) / total : 0)});
  }
  return format_table(rows);
}

std::string assignments_text(const DatasetIndex& dataset, const PlanView& view) {
  std::vector<std::vector<std::string>> rows = {
      {fmt::format("{} ranks: group", view.report.ranks), "role", "part", "trained by", "evaluated by"}};
  for (const auto& row : assignments_json(dataset, view.plan)) {
    rows.push_back({row["group"], row["role"], fmt::to_string(row["part"].get<int64_t>()),
                    fmt::format("{}", fmt::join(row["trained_by"].get<std::vector<int>>(), " ")),
                    fmt::to_string(row["evaluated_by"].get<int>())});
  }
  return format_table(rows);
}

std::string prediction_text(const std::vector<PlanView>& views) {
  std::vector<std::vector<std::string>> rows = {{"ranks", "batch", "step ms", "compute", "of it waiting", "reduce",
                                                 "exposed", "small", "candidates/s", "speed-up", "efficiency"}};
  for (const auto& view : views) {
    if (!view.prediction) continue;
    const auto& found = *view.prediction;
    const double draws =
        static_cast<double>(view.report.samples) / static_cast<double>(std::max<int64_t>(1, view.report.batches));
    rows.push_back({fmt::to_string(found.ranks), fmt::to_string(view.groups_per_batch),
                    milliseconds(found.step_seconds), milliseconds(found.compute_seconds),
                    milliseconds(found.waiting_seconds), milliseconds(found.reduce_seconds),
                    milliseconds(found.exposed_seconds), milliseconds(found.small_seconds),
                    fmt::format("{:.0f}", draws * static_cast<double>(view.candidates_per_group) / found.step_seconds),
                    fmt::format("{:.1f}", found.efficiency * found.ranks), percent(found.efficiency)});
  }
  return format_table(rows);
}

std::string plan_json(const DatasetIndex& dataset, const std::vector<PlanView>& views, size_t heaviest,
                      bool assignments) {
  OrderedJson json = {{"training_groups", dataset.with_role(Role::train).size()}};
  const double total = epoch_cost(dataset);
  for (const int64_t e : heaviest_entries(dataset, heaviest)) json["heaviest"].push_back(entry_json(dataset[e], total));
  for (const auto& view : views) {
    const auto& report = view.report;
    OrderedJson row = {{"ranks", report.ranks},
                       {"groups_per_batch", view.groups_per_batch},
                       {"draws", report.samples},
                       {"batches", report.batches},
                       {"bands", report.buckets},
                       {"parts", report.pieces},
                       {"cut_groups", report.cut_groups},
                       {"idle_ranks", report.idle_ranks},
                       {"padding", report.padding},
                       {"imbalance", report.imbalance},
                       {"step_imbalance", report.step_imbalance},
                       {"step_bound", report.step_bound},
                       {"worst_step", report.worst_step},
                       {"heaviest_draw_share", report.heaviest_sample_share},
                       {"bytes_max", report.bytes_max},
                       {"bytes_mean", report.bytes_mean},
                       {"copies", report.copies},
                       {"repeated", report.repeated},
                       {"speed_up", report.speed_up}};
    if (view.prediction) row["prediction"] = prediction_json(*view.prediction);
    if (assignments) row["assignments"] = assignments_json(dataset, view.plan);
    json["plans"].push_back(std::move(row));
  }
  return json.dump(2);
}

}  // namespace foretime::sharding
