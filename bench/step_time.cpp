#include "bench/step_time.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/foreign_file.h"
#include "configs/run_mark.h"

namespace foretime::sharding {
namespace {

using Json = nlohmann::json;

double fastest_all_reduce(int ranks, double bytes, const Link& link) {
  return std::min(ring_all_reduce_seconds(ranks, bytes, link), tree_all_reduce_seconds(ranks, bytes, link));
}

constexpr uint64_t kMostNoteBytes = 1 << 20;

Json read_json(const std::filesystem::path& run, const char* name) {
  auto json = Json::parse(read_foreign(run, name, kMostNoteBytes).value_or(""), nullptr, false);
  if (!json.is_object())
    throw DataError("{}: not JSON; expected the folder of a run of foretime train", (run / name).string());
  return json;
}

/// Returns whether the run did something other than training between two reports.
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
  const bool bfloat16 = settings.gradient_dtype == configs::GradientType::bfloat16;
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
  const double steps = std::max<size_t>(1, report.steps.size());
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
    const double buckets = std::max(1.0, std::ceil(gradient_bytes / bucket_bytes));
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
  const auto settings = configs::settings_of_run(run_directory);
  const int ranks = read_json(run_directory, "environment.json").value("ranks", 1);
  const auto dataset = make_dataset_index(settings);
  const auto plan = make_shard_plan(dataset, settings, ranks);
  std::vector<double> costs, steps, seconds;
  int64_t step_before = -1;
  double seconds_before = 0;
  read_foreign_lines(run_directory, "metrics.jsonl", UINT64_MAX, [&](std::string_view line) {
    const auto json = Json::parse(line, nullptr, false);
    if (!json.is_object() || json.value("kind", Json()) != "train") return;
    const auto at = json.value("step", Json()), clock = json.value("seconds", Json());
    if (!at.is_number_integer() || !clock.is_number()) return;
    const int64_t step = at;
    const double now = clock;
    // Where a run was continued, its clock started again.
    const bool usable = step_before >= 0 && step > step_before && now > seconds_before &&
                        !interrupted(step_before, step, settings.trainer.eval_every) &&
                        !interrupted(step_before, step, settings.checkpoint.every_steps);
    if (usable) {
      double cost = 0;
      const int64_t accumulation = settings.optimizer.accumulation;
      for (int64_t batch = step_before * accumulation; batch < step * accumulation; ++batch)
        cost += batch_cost(dataset, plan, ranks, settings.trainer.seed, batch).heaviest_rank;
      const double count = step - step_before;
      costs.push_back(cost);
      steps.push_back(count);
      seconds.push_back(std::max(0.0, now - seconds_before - count * json.value("exposed_seconds", 0.0)));
    }
    step_before = step;
    seconds_before = now;
  });
  if (costs.size() < 2)
    throw DataError(
        "{}: {} intervals between reports without an evaluation or a checkpoint in them, expected "
        "at least 2: train with a smaller trainer.log_every",
        (run_directory / "metrics.jsonl").string(), costs.size());
  return fit_compute(costs, steps, seconds);
}

}  // namespace foretime::sharding
