/// The XGBoost baselines over features of statements (TVM) and of loops (AutoTVM), docs/explanations/baselines.md.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/message.h"
#include "bench/xgboost_rows.h"
#include "cli/parsing/options.h"
#include "metrics/metrics.h"
#include "models/baselines/program_rows.h"
#include "models/baselines/record_rows.h"
#include "models/baselines/runtime_model.h"
#include "models/baselines/throughput_model.h"

namespace {

using namespace foretime;
using cli::checked_option;
using cli::Least;
using cli::needed_option;
using cli::shown_option;
namespace fs = std::filesystem;
using models::ProgramRows;

struct StatementArguments {
  std::string train, test, records, dags, split, preset = "pairs";
  double held_out = 0.2;
  int64_t rounds = 0, seeds = 1, first_seed = 43, threads = 1;
  bool json = false;
};

struct LoopArguments {
  std::string features;
  std::vector<std::string> programs, given = {"C1", "C2", "C4", "C8", "C9", "C12"};
  std::string target = "flop";
  std::vector<double> shares = {1.0};
  int64_t depth = 6, seeds = 1, threads = 1;
  double eta = 0.1;
  bool json = false;
};

std::string describe(const std::string& what, const ProgramRows& rows) {
  const std::set<int32_t> workloads(rows.workload.begin(), rows.workload.end());
  return fmt::format("{}: {} programs of {} workloads, {} rows of {} features\n", what, rows.programs(),
                     workloads.size(), rows.rows(), rows.columns);
}

nlohmann::ordered_json report_json(const models::RankingReport& report) {
  return {{"workloads", report.workloads},
          {"programs", report.programs},
          {"pairwise_accuracy", report.pairwise_accuracy},
          {"kendall_tau", report.kendall_tau},
          {"top1_score", report.top1_score},
          {"top5_score", report.top5_score}};
}

std::string to_text(const models::RankingReport& report) {
  return fmt::format("pairwise {:.4f}  τ-b {:.4f}  top-1 {:.4f}  top-5 {:.4f}", report.pairwise_accuracy,
                     report.kendall_tau, report.top1_score, report.top5_score);
}

/// Every n-th workload is held out, where n is 1 / share: the same ones in each run.
std::pair<ProgramRows, ProgramRows> divide(const ProgramRows& rows, double share) {
  const size_t every = std::max(2.0, std::round(1.0 / share));
  std::vector<bool> test(rows.workload_names.size());
  for (size_t w = 0; w < test.size(); ++w) test[w] = w % every == every - 1;
  std::vector<bool> train = test;
  train.flip();
  return {select(rows, programs_of(rows, train)), select(rows, programs_of(rows, test))};
}

/// Predictions of several seeds are averaged; lower means faster.
void add_scores(std::vector<double>& total, const std::vector<double>& throughputs) {
  total.resize(throughputs.size(), 0.0);
  for (size_t p = 0; p < total.size(); ++p) total[p] -= throughputs[p];
}

/// Features computed from records, divided as a file says, or by workloads.
std::pair<ProgramRows, ProgramRows> rows_of_records(const StatementArguments& arguments) {
  models::RecordSplit split;
  models::RecordLines lines;
  if (!arguments.split.empty()) {
    split = models::read_record_split(arguments.split);
    lines = split.train;
    lines.insert(split.test.begin(), split.test.end());
  }
  const auto all = models::read_record_rows(arguments.records, arguments.dags, lines);
  if (all.without_dag > 0)
    print_message("{}: {} records without a DAG in {}\n", arguments.records, all.without_dag, arguments.dags);
  if (all.without_features > 0)
    print_message("{} records without features, the first: {}\n", all.without_features, all.first_reason);
  if (all.counts.malformed > 0)
    print_message("{}: {} lines are not records, the first: {}:{}: {}\n", arguments.records, all.counts.malformed,
                  arguments.records, all.counts.first_malformed.front().line,
                  all.counts.first_malformed.front().reason);
  if (lines.empty()) return divide(all.rows, arguments.held_out);
  return {rows_of_lines(all, split.train), rows_of_lines(all, split.test)};
}

std::pair<ProgramRows, ProgramRows> statement_rows(const StatementArguments& arguments) {
  if (!arguments.records.empty()) return rows_of_records(arguments);
  auto train = models::read_statement_rows(arguments.train);
  if (arguments.test.empty()) return divide(train, arguments.held_out);
  return {std::move(train), models::read_statement_rows(arguments.test)};
}

void run_statements(const StatementArguments& arguments) {
  const auto [train, test] = statement_rows(arguments);
  if (!arguments.json) std::cout << describe("training", train) << describe("test", test);
  nlohmann::ordered_json json;
  json["preset"] = arguments.preset;
  auto settings = models::throughput_preset(arguments.preset);
  if (arguments.rounds > 0) settings.rounds = arguments.rounds;
  settings.booster.threads = arguments.threads;
  std::vector<double> total;
  for (int64_t s = 0; s < arguments.seeds; ++s) {
    settings.booster.seed = arguments.first_seed + s;
    const auto model = models::ThroughputModel::train(train, settings);
    std::vector<double> scores;
    add_scores(scores, model.predict(test));
    add_scores(total, model.predict(test));
    const auto report = models::rank_programs(test, scores);
    json["seeds"].push_back(report_json(report));
    json["seeds"].back()["seed"] = settings.booster.seed;
    if (!arguments.json)
      std::cout << fmt::format("seed {:<6} {}\n", settings.booster.seed, to_text(report)) << std::flush;
  }
  const auto report = models::rank_programs(test, total);
  json["mean_score"] = report_json(report);
  if (arguments.json) {
    std::cout << json.dump(2) << "\n";
  } else if (arguments.seeds > 1) {
    std::cout << fmt::format("mean score  {}\n", to_text(report));
  }
}

std::vector<fs::path> program_files(const std::vector<std::string>& named) {
  std::vector<fs::path> files;
  for (const auto& name : named) {
    if (!fs::is_directory(name)) {
      files.emplace_back(name);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(name)) {
      if (entry.path().extension() == ".npz") files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void run_loops(const LoopArguments& arguments) {
  const auto rows = models::read_loop_rows(arguments.features, program_files(arguments.programs));
  models::RuntimeSettings settings;
  settings.target =
      arguments.target == "flop" ? models::RuntimeTarget::nanoseconds_per_flop : models::RuntimeTarget::milliseconds;
  settings.booster.max_depth = arguments.depth;
  settings.booster.eta = arguments.eta;
  settings.booster.threads = arguments.threads;
  if (!arguments.json) std::cout << describe("all", rows);
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const double share : arguments.shares) {
    for (int64_t seed = 0; seed < arguments.seeds; ++seed) {
      const auto split = models::split_workloads(rows, arguments.given, share, seed);
      settings.booster.seed = seed;
      const auto model =
          models::RuntimeModel::train(select(rows, split.training), select(rows, split.validation), settings);
      const auto test = select(rows, split.test);
      const auto predicted = model.predict(test);
      const double milliseconds = 1e3 * metrics::mean_absolute_error(predicted, test.runtimes);
      const auto report = models::rank_programs(test, predicted);
      nlohmann::ordered_json one = {{"share", share},
                                    {"seed", seed},
                                    {"training", split.training.size()},
                                    {"test", split.test.size()},
                                    {"rounds", model.rounds()},
                                    {"l1_ms", milliseconds}};
      one["ranking"] = report_json(report);
      std::string by_workload;
      for (const auto& [workload, ranking] : models::rank_by_workload(test, predicted)) {
        one["kendall_tau"][workload] = ranking.kendall_tau;
        by_workload += fmt::format(" {} {:.2f}", workload, ranking.kendall_tau);
      }
      json.push_back(one);
      if (arguments.json) continue;
      std::cout << fmt::format("{:>5.0f} % = {} programs, seed {}: ℓ1 {:.3f} ms  {}  ({} rounds; τ-b{})\n", 100 * share,
                               split.training.size(), seed, milliseconds, to_text(report), model.rounds(), by_workload)
                << std::flush;
    }
  }
  if (arguments.json) std::cout << json.dump(2) << "\n";
}

void add_statements(CLI::App& xgboost) {
  auto* command = xgboost.add_subcommand(
      "statements", "TVM's scheme over per-statement features: normalised throughput, ranking within each workload");
  const auto arguments = std::make_shared<StatementArguments>();
  auto* features = command->add_option_group("features", "Where the features come from");
  auto* train = checked_option(*features, "--train", arguments->train,
                               "Features to train on (.npz: features, row_splits, workload_index, workload_keys, "
                               "cost; or X, ptr, task, y)",
                               CLI::ExistingFile);
  auto* records = checked_option(*features, "--records", arguments->records,
                                 "Tuning records (.json lines, plain or gzip): their features are computed here",
                                 CLI::ExistingFile);
  features->require_option(1);
  checked_option(*command, "--test", arguments->test, "Features to test on; without it, some workloads of --train",
                 CLI::ExistingFile)
      ->needs(train);
  auto* dags =
      checked_option(*command, "--dags", arguments->dags, "Compute DAGs of the records' workloads", CLI::ExistingFile)
          ->needs(records);
  records->needs(dags);
  checked_option(*command, "--split", arguments->split,
                 "Which records (.json: train_lines and eval_lines, 0-based, by workload key); without it, all, and "
                 "some workloads are the test",
                 CLI::ExistingFile)
      ->needs(records);
  shown_option(*command, "--held-out", arguments->held_out,
               "Share of the workloads to test on where neither --test nor --split says which", CLI::Range(0.01, 0.5));
  shown_option(*command, "--preset", arguments->preset, "Loss and parameters",
               CLI::IsMember(models::throughput_presets()));
  checked_option(*command, "--rounds", arguments->rounds, "Rounds of trees; 0: the preset's", Least::zero);
  shown_option(*command, "--seeds", arguments->seeds, "Models to train; their mean score is reported too",
               Least::above_zero);
  command->add_option("--first-seed", arguments->first_seed, "Seed of the first one")->capture_default_str();
  shown_option(*command, "--threads", arguments->threads, "Threads; other trees with another number",
               Least::above_zero);
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] { run_statements(*arguments); });
}

void add_loops(CLI::App& xgboost) {
  auto* command = xgboost.add_subcommand(
      "loops", "Run times over AutoTVM's loop features: some workloads given, the others are the test");
  const auto arguments = std::make_shared<LoopArguments>();
  checked_option(*command, "--features", arguments->features, "Loop features (.npz: features, row_splits, id)",
                 CLI::ExistingFile)
      ->required();
  needed_option(*command, "--programs", arguments->programs,
                "Program files (.npz: id, runtime, flop), or a folder of them");
  command->add_option("--given", arguments->given, "Workloads for training (80 %) and validation (20 %)")
      ->delimiter(',')
      ->capture_default_str();
  shown_option(*command, "--share", arguments->shares, "Parts of the training programs to use, each in its turn",
               CLI::Range(0.001, 1.0))
      ->delimiter(',');
  shown_option(*command, "--target", arguments->target, "Logarithm of time, or of time per operation",
               CLI::IsMember({"time", "flop"}));
  shown_option(*command, "--depth", arguments->depth, "Depth of trees", Least::above_zero);
  shown_option(*command, "--eta", arguments->eta, "Step size", Least::above_zero);
  shown_option(*command, "--seeds", arguments->seeds, "Splits and models, seeds 0 …", Least::above_zero);
  shown_option(*command, "--threads", arguments->threads, "Threads", Least::above_zero);
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] { run_loops(*arguments); });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains and tests boosted trees over hand-made features, by libxgboost");
  app.require_subcommand(1);
  add_statements(app);
  add_loops(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::cerr << "xgboost_bench: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
