#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/table.h"
#include "base/terminal.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "configs/load.h"
#include "sharding/dataset_index.h"
#include "sharding/plan_report.h"

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

/// Holds the plan for one number of ranks.
struct PlanView {
  int64_t groups_per_batch = 0;
  sharding::ShardPlan plan;
  sharding::PlanReport report;
};

/// Describes the form of texts. `verbose` shows all columns instead of the three most important ones; `width` is the
/// width of the terminal, 0 means unlimited.
struct TextForm {
  bool verbose = false;
  size_t width = 0;
};

using OrderedJson = nlohmann::ordered_json;

std::string percent(double value) { return fmt::format("{:.2f} %", 100 * value); }
std::string megabytes(double bytes) { return fmt::format("{:.1f} MB", bytes / 1e6); }

std::vector<int64_t> heaviest_entries(const sharding::DatasetIndex& dataset, size_t count) {
  auto entries = dataset.with_role(sharding::Role::train);
  std::ranges::stable_sort(entries, std::greater<>(), [&](int64_t e) { return dataset[e].sample_cost; });
  entries.resize(std::min(entries.size(), count));
  return entries;
}

double epoch_cost(const sharding::IndexEntry& entry) { return entry.sample_cost * (entry.samples * entry.parts); }

double epoch_cost(const sharding::DatasetIndex& dataset) {
  double sum = 0;
  for (const int64_t e : dataset.with_role(sharding::Role::train)) sum += epoch_cost(dataset[e]);
  return sum;
}

OrderedJson entry_json(const sharding::IndexEntry& entry, double total) {
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

OrderedJson assignments_json(const sharding::DatasetIndex& dataset, const sharding::ShardPlan& plan) {
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

using Rows = std::vector<std::vector<std::string>>;

constexpr const char* kShortMeaning =
    "\nspeed-up: over one rank, without communication: it has the waits for the slowest rank of each step. memory: of "
    "the fullest rank, estimated.\n";
constexpr const char* kMeaning =
    "\nbatch: groups in a batch. imbalance: most cost of a rank in an epoch over the mean. by step: sum over steps of "
    "the\nslowest rank's cost over the mean's, which is what a run waits for. bound: the same where each step took as "
    "long as\nits heaviest draw or the mean. heaviest draw: over a rank's mean cost of a step. memory: of the fullest "
    "rank,\nestimated. copies: ranks that hold a training part. repeated: work that ranks do each for itself on states "
    "of one graph. speed-up: over one rank, without communication.\n";

Rows short_rows(const std::vector<PlanView>& views) {
  Rows rows = {{"ranks", "speed-up", "memory"}};
  for (const auto& view : views)
    rows.push_back({fmt::to_string(view.report.ranks), fmt::format("{:.2f}", view.report.speed_up),
                    megabytes(view.report.bytes_max)});
  return rows;
}

Rows all_rows(const std::vector<PlanView>& views) {
  Rows rows = {{"ranks", "batch", "batches", "padding", "imbalance", "by step", "bound", "worst step", "heaviest draw",
                "memory", "mean", "copies", "repeated", "speed-up"}};
  for (const auto& view : views) {
    const auto& report = view.report;
    rows.push_back({fmt::to_string(report.ranks), fmt::to_string(view.groups_per_batch), fmt::to_string(report.batches),
                    percent(report.padding), percent(report.imbalance), percent(report.step_imbalance),
                    percent(report.step_bound), percent(report.worst_step),
                    fmt::format("{:.2f}", report.heaviest_sample_share), megabytes(report.bytes_max),
                    megabytes(report.bytes_mean), fmt::format("{:.1f}", report.copies), percent(report.repeated),
                    fmt::format("{:.2f}", report.speed_up)});
  }
  return rows;
}

/// Returns the training groups, parts and samples, one row for each number of ranks, explanations of the columns, and
/// remarks.
std::string plan_text(const sharding::DatasetIndex& dataset, const std::vector<PlanView>& views, const TextForm& form) {
  const auto& first = views.front().report;
  auto text =
      fmt::format("{} training groups in {} parts ({} groups are cut), {} draws an epoch\n\n",
                  dataset.with_role(sharding::Role::train).size(), first.pieces, first.cut_groups, first.samples);
  text += format_table(form.verbose ? all_rows(views) : short_rows(views), form.width);
  text += folded(form.verbose ? kMeaning : kShortMeaning, form.width);
  const auto notes = remarks(views);
  return notes.empty() ? text : text + "\n" + folded(notes, form.width);
}

/// Returns the `count` training groups with the most expensive samples.
std::string heaviest_text(const sharding::DatasetIndex& dataset, size_t count, const TextForm& form) {
  Rows rows = {{"heaviest groups", "nodes", "edges", "configurable", "candidates", "parts", "draws", "cost of a draw",
                "of all"}};
  if (!form.verbose) rows = {{"heaviest groups", "nodes", "cost of all"}};
  const double total = epoch_cost(dataset);
  for (const int64_t e : heaviest_entries(dataset, count)) {
    const auto& entry = dataset[e];
    const auto& header = entry.header;
    const auto share = percent(total > 0 ? epoch_cost(entry) / total : 0);
    if (!form.verbose) {
      rows.push_back({header.name, fmt::to_string(header.nodes), share});
      continue;
    }
    rows.push_back({header.name, fmt::to_string(header.nodes), fmt::to_string(header.edges),
                    fmt::to_string(header.configurable), fmt::to_string(header.candidates), fmt::to_string(entry.parts),
                    fmt::to_string(entry.samples), fmt::format("{:.3g}", entry.sample_cost), share});
  }
  return format_table(rows, form.width);
}

/// Returns the ranks that train on and evaluate each part, one row a part.
std::string assignments_text(const sharding::DatasetIndex& dataset, const PlanView& view, const TextForm& form) {
  Rows rows = {{fmt::format("{} ranks: group", view.report.ranks), "role", "part", "trained by", "evaluated by"}};
  for (const auto& row : assignments_json(dataset, view.plan))
    rows.push_back({row["group"], row["role"], fmt::to_string(row["part"].get<int64_t>()),
                    fmt::format("{}", fmt::join(row["trained_by"].get<std::vector<int>>(), " ")),
                    fmt::to_string(row["evaluated_by"].get<int>())});
  return format_table(rows, form.width);
}

/// Returns all of these as JSON; with `assignments` also the ranks of each part.
std::string plan_json(const sharding::DatasetIndex& dataset, const std::vector<PlanView>& views, size_t heaviest,
                      bool assignments) {
  OrderedJson json = {{"training_groups", dataset.with_role(sharding::Role::train).size()}};
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
    if (assignments) row["assignments"] = assignments_json(dataset, view.plan);
    json["plans"].push_back(std::move(row));
  }
  return json.dump(2);
}

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
    if (dataset.with_role(sharding::Role::train).empty())
      throw DataError("{}: data.train: found no groups, expected files to train on", options.file);
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
  std::vector<PlanView> views;
  for (const int ranks : options.ranks) {
    auto own = settings;
    if (options.groups_per_rank > 0) own.sampler.groups_per_batch = options.groups_per_rank * ranks;
    auto plan = sharding::make_shard_plan(dataset, own, ranks);
    auto report = sharding::report_plan(dataset, plan, own, ranks);
    views.push_back({own.sampler.groups_per_batch, std::move(plan), std::move(report)});
  }
  if (options.json) {
    fmt::print("{}\n", plan_json(dataset, views, options.heaviest, options.assignments));
    return;
  }
  const TextForm form{.verbose = options.verbose, .width = output_width()};
  fmt::print("{}{}\n{}", sizes_note, plan_text(dataset, views, form), heaviest_text(dataset, options.heaviest, form));
  for (size_t i = 0; options.assignments && i < views.size(); ++i)
    fmt::print("\n{}", assignments_text(dataset, views[i], form));
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
