#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/terminal.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "configs/load.h"
#include "sharding/dataset_index.h"
#include "sharding/plan_report.h"
#include "sharding/plan_text.h"

namespace foretime::cli {
namespace {

constexpr int kMostPlannedRanks = 1 << 20;

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
  for (const int ranks : options.ranks) {
    auto own = settings;
    if (options.groups_per_rank > 0) own.sampler.groups_per_batch = options.groups_per_rank * ranks;
    sharding::PlanView view{.groups_per_batch = own.sampler.groups_per_batch,
                            .candidates_per_group = own.sampler.candidates_per_group,
                            .plan = sharding::make_shard_plan(dataset, own, ranks),
                            .report = {}};
    view.report = sharding::report_plan(dataset, view.plan, own, ranks);
    views.push_back(std::move(view));
  }
  if (options.json) {
    fmt::print("{}\n", sharding::plan_json(dataset, views, options.heaviest, options.assignments));
    return;
  }
  const sharding::TextForm form{.verbose = options.verbose, .width = output_width()};
  fmt::print("{}{}\n{}", sizes_note, sharding::plan_text(dataset, views, form),
             sharding::heaviest_text(dataset, options.heaviest, form));
  for (size_t i = 0; options.assignments && i < views.size(); ++i)
    fmt::print("\n{}", sharding::assignments_text(dataset, views[i], form));
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  auto* command =
      app.add_subcommand("plan", "Who would train on what and how even that is: for any number of ranks, without them");
  command->add_option("settings", options->file, "YAML settings; not needed with --sizes");
  command->add_option("overrides", options->overrides, "key=value, e.g. sampler.groups_per_batch=512");
  checked_option(*command, "--ranks", options->ranks, "numbers of ranks, e.g. 8,64,512",
                 CLI::Range(1, kMostPlannedRanks))
      ->delimiter(',');
  command->add_option("--sizes", options->sizes,
                      "CSV of layout graphs in place of files: nodes,edges[,configurable,candidates,name]");
  checked_option(*command, "--candidates", options->assumptions.candidates, "candidates where the CSV has none (11648)",
                 Least::above_zero);
  checked_option(*command, "--configurable", options->assumptions.configurable_share,
                 "configurable share of the nodes where the CSV has none (0.0721)", number_range(0.0, 1.0));
  checked_option(*command, "--groups-per-rank", options->groups_per_rank,
                 "sampler.groups_per_batch = this times the number of ranks", CLI::Range(1, kMostPlannedRanks));
  command->add_option("--heaviest", options->heaviest, "how many of the heaviest groups to show (5)");
  command->add_flag("--verbose", options->verbose, "all columns: balance by epoch and step, padding, copies, …");
  command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--assignments", options->assignments, "list which rank has which group and part");
  command->callback([options] { run(*options); });
}

}  // namespace foretime::cli
