#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/terminal.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "configs/load.h"
#include "models/model.h"
#include "sharding/dataset_index.h"
#include "sharding/plan_report.h"
#include "sharding/plan_text.h"
#include "sharding/step_time.h"

namespace foretime::cli {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr int64_t kHloOpcodes = 121;  // width of the learned table if no file gives it

struct PlanOptions {
  std::string file;
  std::vector<std::string> overrides;
  std::vector<int> ranks = {1, 8, 64, 512};
  std::string sizes;
  sharding::SizeAssumptions assumptions;
  int64_t groups_per_rank = 0;
  size_t heaviest = 5;
  bool json = false;
  bool assignments = false;
  bool verbose = false;
  bool predict = false;
  std::string measured;
  sharding::ComputeTime compute;
  double gradient_bytes = 0;
  sharding::Cluster cluster;
};

configs::Settings settings_of(const PlanOptions& options) {
  if (options.file.empty() || options.file.find('=') != std::string::npos) {
    auto overrides = options.overrides;
    if (!options.file.empty()) overrides.insert(overrides.begin(), options.file);
    if (options.sizes.empty()) throw configs::SettingsError("plan: expected a settings file, or --sizes FILE.csv");
    return configs::parse_settings("{}", "command line", overrides);
  }
  return configs::load_settings(options.file, options.overrides);
}

double gradient_bytes(const configs::Settings& settings, const sharding::DatasetIndex& dataset) {
  models::InputSchema schema;
  schema.kind = dataset.entries.front().header.kind;
  schema.feature_count = dataset.entries.front().header.feature_count;
  schema.node_type_count = kHloOpcodes;
  int64_t values = 0;
  for (const auto& parameter : models::make_model(settings.model, schema)->parameters()) values += parameter.numel();
  return 4.0 * values;
}

sharding::ComputeTime compute_time(const PlanOptions& options) {
  if (!options.measured.empty()) return sharding::measure_compute(options.measured);
  if (options.compute.seconds_per_cost <= 0)
    throw configs::SettingsError(
        "--predict: the speed of a rank is unknown; give a run trained here with --measured RUN_DIRECTORY, or "
        "--seconds-per-cost");
  return options.compute;
}

std::string reduction_text(const sharding::Reduction& reduction, const sharding::Cluster& cluster) {
  if (!reduction.exchange) return "ring or double tree, the faster, inside hosts and then between them";
  return fmt::format("pieces are exchanged{}{}, {:.1f} us a message", reduction.bfloat16 ? " as bfloat16" : "",
                     reduction.by_hosts ? ", inside hosts and then between them" : "", 1e6 * cluster.message_seconds);
}

std::string assumptions_text(const PlanOptions& options, const sharding::ComputeTime& compute, double bytes,
                             const configs::Settings& settings) {
  const auto& cluster = options.cluster;
  return fmt::format(
      "assumptions: {:.3e} s per unit of cost and {:.3f} ms a step whatever is in it ({}); gradients {:.2f} MB in "
      "buckets of "
      "{:.2f} MB;\n{} ranks a host, {:.1f} us and {:.1f} GB/s between them, {:.1f} us and {:.1f} GB/s between hosts, a "
      "direction;\n{}; reductions hide in {:.0f} % of compute, the last\nbucket never; ranks compute alike and loading "
      "is hidden; efficiency: one rank's time for the "
      "same "
      "batch, over ranks\ntimes this one's.\n",
      compute.seconds_per_cost, 1e3 * compute.seconds_per_step,
      options.measured.empty() ? "given" : "measured in " + options.measured, bytes / 1e6,
      settings.comm.bucket_bytes / 1e6, cluster.ranks_per_host, 1e6 * cluster.inside.latency,
      cluster.inside.bandwidth / 1e9, 1e6 * cluster.between.latency, cluster.between.bandwidth / 1e9,
      reduction_text(sharding::reduction_of(settings.comm), cluster), 100 * cluster.overlap * cluster.backward_share);
}

void run(const PlanOptions& options) {
  const auto settings = settings_of(options);
  sharding::DatasetIndex dataset;
  std::string sizes_note;
  if (options.sizes.empty()) {
    dataset = sharding::make_dataset_index(settings);
    if (dataset.with_role(sharding::Role::train).empty()) throw DataError("data.train: found no groups");
  } else {
    auto list = sharding::read_size_list(options.sizes, settings, options.assumptions);
    dataset = std::move(list.dataset);
    sizes_note = fmt::format("sizes from {}", options.sizes);
    if (list.assumed_configurable)
      sizes_note +=
          fmt::format("; assumed: {:.2f} % of the nodes configurable", 100 * options.assumptions.configurable_share);
    if (list.assumed_candidates)
      sizes_note += fmt::format("; assumed: {} candidates each", options.assumptions.candidates);
    sizes_note += "\n";
  }
  std::vector<sharding::PlanView> views;
  sharding::ComputeTime compute;
  double bytes = options.gradient_bytes;
  if (options.predict) {
    compute = compute_time(options);
    if (bytes <= 0) bytes = gradient_bytes(settings, dataset);
  }
  for (const int ranks : options.ranks) {
    auto own = settings;
    if (options.groups_per_rank > 0) own.sampler.groups_per_batch = options.groups_per_rank * ranks;
    sharding::PlanView view{.groups_per_batch = own.sampler.groups_per_batch,
                            .candidates_per_group = own.sampler.candidates_per_group,
                            .plan = sharding::make_shard_plan(dataset, own, ranks),
                            .report = {},
                            .prediction = {}};
    view.report = sharding::report_plan(dataset, view.plan, own, ranks);
    if (options.predict)
      view.prediction = sharding::predict_step(view.report, compute, bytes, own.comm.bucket_bytes, options.cluster,
                                               sharding::reduction_of(own.comm));
    views.push_back(std::move(view));
  }
  if (options.json) {
    fmt::print("{}\n", sharding::plan_json(dataset, views, options.heaviest, options.assignments));
    return;
  }
  const sharding::TextForm form{.verbose = options.verbose, .width = output_width()};
  fmt::print("{}{}\n{}", sizes_note, sharding::plan_text(dataset, views, form),
             sharding::heaviest_text(dataset, options.heaviest, form));
  if (options.predict)
    fmt::print("\n{}\n{}", sharding::prediction_text(views, form),
               folded(assumptions_text(options, compute, bytes, settings), form.width));
  for (size_t i = 0; options.assignments && i < views.size(); ++i)
    fmt::print("\n{}", sharding::assignments_text(dataset, views[i], form));
}

void add_prediction_options(CLI::App& command, PlanOptions& options) {
  command.option_defaults()->group("Prediction");
  command.add_flag("--predict", options.predict, "predict the time of a step and the efficiency");
  command.add_option("--measured", options.measured, "run directory that tells how fast a rank is here");
  command.add_option("--seconds-per-cost", options.compute.seconds_per_cost, "the same as a number");
  checked_option(command, "--seconds-per-step", options.compute.seconds_per_step, "seconds of a step whatever it holds",
                 Least::zero);
  checked_option(command, "--gradient-bytes", options.gradient_bytes, "bytes of all gradients; by default the model's",
                 Least::above_zero);
  checked_option(command, "--ranks-per-host", options.cluster.ranks_per_host, "ranks of one host (8)",
                 CLI::Range(1, kMostRanks));
  const auto link = [&](const std::string& name, sharding::Link& link, const std::string& where,
                        const std::string& defaults) {
    checked_option(command, "--" + name + "-latency", link.latency,
                   "seconds of an empty message " + where + " (" + defaults, Least::zero);
    checked_option(command, "--" + name + "-bandwidth", link.bandwidth, "bytes a second and direction " + where,
                   Least::above_zero);
  };
  link("inside", options.cluster.inside, "between ranks of one host", "NVLink 4: 3e-6, 360e9)");
  link("between", options.cluster.between, "between hosts", "100 Gbit/s InfiniBand: 5e-6, 11e9)");
  checked_option(command, "--overlap", options.cluster.overlap,
                 "part of the backward pass in which reductions hide (1)", CLI::Range(0.0, 1.0));
  checked_option(command, "--message-seconds", options.cluster.message_seconds,
                 "seconds that a message keeps a rank busy, where pieces are exchanged (0)", Least::zero);
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  auto* command = app.add_subcommand(
      "plan", "Who would train on what, how even that is, and how fast: for any number of ranks, without them");
  command->add_option("settings", options->file, "YAML settings; not needed with --sizes");
  command->add_option("overrides", options->overrides, "key=value, e.g. sampler.groups_per_batch=512");
  checked_option(*command, "--ranks", options->ranks, "numbers of ranks, e.g. 8,64,512", CLI::Range(1, kMostRanks))
      ->delimiter(',');
  command->add_option("--sizes", options->sizes,
                      "CSV of layout graphs in place of files: nodes,edges[,configurable,candidates,name]");
  checked_option(*command, "--candidates", options->assumptions.candidates, "candidates where the CSV has none (11648)",
                 Least::above_zero);
  checked_option(*command, "--configurable", options->assumptions.configurable_share,
                 "configurable share of the nodes where the CSV has none (0.0721)", CLI::Range(0.0, 1.0));
  checked_option(*command, "--groups-per-rank", options->groups_per_rank,
                 "sampler.groups_per_batch = this times the number of ranks", CLI::Range(1, kMostRanks));
  command->add_option("--heaviest", options->heaviest, "how many of the heaviest groups to show (5)");
  command->add_flag("--verbose", options->verbose, "all columns: balance by epoch and step, padding, copies, …");
  command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--assignments", options->assignments, "list which rank has which group and part");
  add_prediction_options(*command, *options);
  command->callback([options] { run(*options); });
}

}  // namespace foretime::cli
