/// How long a step takes on many ranks, by the model of bench/step_time.h, as JSON: a prediction for each number of
/// ranks, with the plan's imbalance.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/step_time.h"
#include "configs/load.h"
#include "models/model.h"
#include "sharding/dataset_index.h"

namespace {

using namespace foretime;

constexpr int64_t kHloOpcodes = 121;  // for the width of the learned table, where no file tells

double gradient_bytes(const configs::Settings& settings, const sharding::DatasetIndex& dataset) {
  models::InputSchema schema;
  schema.kind = dataset.entries.front().header.kind;
  schema.feature_count = dataset.entries.front().header.feature_count;
  schema.node_type_count = kHloOpcodes;
  int64_t values = 0;
  for (const auto& parameter : models::make_model(settings.model, schema)->parameters()) values += parameter.numel();
  return 4.0 * static_cast<double>(values);
}

nlohmann::json predict(const configs::Settings& settings, int ranks, const sharding::DatasetIndex& dataset,
                       const sharding::ComputeTime& compute, const sharding::Cluster& cluster) {
  const auto report = report_plan(dataset, make_shard_plan(dataset, settings, ranks), settings, ranks);
  const auto found = predict_step(report, compute, gradient_bytes(settings, dataset), settings.comm.bucket_bytes,
                                  cluster, sharding::reduction_of(settings.comm));
  return {{"ranks", ranks},
          {"imbalance", report.imbalance},
          {"step_imbalance", report.step_imbalance},
          {"compute_seconds", found.compute_seconds},
          {"waiting_seconds", found.waiting_seconds},
          {"reduce_seconds", found.reduce_seconds},
          {"exposed_seconds", found.exposed_seconds},
          {"step_seconds", found.step_seconds},
          {"efficiency", found.efficiency}};
}

}  // namespace

int main(int argc, char** argv) {
  std::string file, measured;
  std::vector<std::string> overrides;
  std::vector<int> all_ranks;
  int groups_per_rank = 0;
  sharding::Cluster cluster;
  CLI::App app("Predicts the time of a step on many ranks from a run on few");
  app.add_option("settings", file, "YAML settings")->required();
  app.add_option("overrides", overrides, "key=value");
  app.add_option("--ranks", all_ranks, "numbers of ranks, e.g. 8,64,512")->required()->delimiter(',');
  app.add_option("--measured", measured, "run directory that tells how fast a rank is here")->required();
  app.add_option("--groups-per-rank", groups_per_rank, "sampler.groups_per_batch = this times the number of ranks");
  app.add_option("--ranks-per-host", cluster.ranks_per_host)->capture_default_str();
  app.add_option("--inside-latency", cluster.inside.latency, "seconds of an empty message")->capture_default_str();
  app.add_option("--inside-bandwidth", cluster.inside.bandwidth, "bytes a second and direction")->capture_default_str();
  app.add_option("--between-latency", cluster.between.latency)->capture_default_str();
  app.add_option("--between-bandwidth", cluster.between.bandwidth)->capture_default_str();
  app.add_option("--overlap", cluster.overlap, "part of the backward pass in which sums hide")->capture_default_str();
  app.add_option("--message-seconds", cluster.message_seconds, "that a message keeps a rank busy, in exchanges")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    const auto settings = configs::load_settings(file, overrides);
    const auto dataset = sharding::make_dataset_index(settings);
    const auto compute = sharding::measure_compute(measured);
    nlohmann::json predictions;
    for (const int ranks : all_ranks) {
      auto own = settings;
      if (groups_per_rank > 0) own.sampler.groups_per_batch = int64_t{groups_per_rank} * ranks;
      predictions.push_back(predict(own, ranks, dataset, compute, cluster));
    }
    fmt::print("{}\n", predictions.dump(2));
  } catch (const std::exception& error) {
    fmt::print(stderr, "step_time_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
