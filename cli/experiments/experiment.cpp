#include <algorithm>
#include <functional>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/message.h"
#include "base/output_target.h"
#include "cli/jobs/queue_access.h"
#include "cli/light/programs.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "comm/communicator.h"
#include "experiments/report.h"
#include "experiments/trials.h"
#include "worker/run/launch.h"

namespace foretime::cli {
namespace {

namespace fs = std::filesystem;

struct ExperimentOptions {
  QueueOptions queue;
  std::string name, out;
  experiments::ExperimentChoice choice;
  jobs::Resources resources;
  int64_t priority = 0;
  bool quick = false, overwrite = false, force = false, dry_run = false, report = false, submit = false,
       collect = false;
};

/// A part with what it runs, and where.
struct PlannedPart {
  experiments::Experiment experiment;
  fs::path out;
  std::vector<experiments::Trial> trials;

  bool has_models() const {
    return std::any_of(experiment.entries.begin(), experiment.entries.end(),
                       [](const auto& entry) { return entry.kind == experiments::EntryKind::model; });
  }
};
struct Plan {
  experiments::ExperimentFile file;
  fs::path out;
  std::vector<PlannedPart> parts;
  std::vector<std::string> left_out;  // sentences

  const configs::Settings& settings() const { return parts.front().experiment.base; }
};

fs::path output_of(const ExperimentOptions& options, const experiments::ExperimentFile& file) {
  if (!options.out.empty()) return options.out;
  auto name = file.name;
  if (!file.variant.empty()) name += "-" + file.variant;
  return fs::path("runs") / "experiments" / name;
}

Plan make_plan(const ExperimentOptions& options) {
  Plan plan;
  auto choice = options.choice;
  // Agents start elsewhere: what is relative to this working folder would name another one there.
  if (!choice.data_root.empty()) choice.data_root = fs::absolute(choice.data_root).lexically_normal().string();
  plan.file = experiments::load_experiments(experiments::find_experiment(options.name), choice);
  plan.out = output_of(options, plan.file);
  for (const auto& experiment : plan.file.parts) {
    const auto missing = experiments::missing_requirement(experiment);
    if (!missing.empty()) {
      plan.left_out.push_back(fmt::format("{} is left out: {} is not there", experiment.full_name(), missing));
      continue;
    }
    const auto out = plan.out / experiment.part;
    plan.parts.push_back({experiment, out, experiments::trials_of(experiment, out)});
  }
  if (plan.parts.empty())
    throw DataError("{}: nothing to do: {}; --data names the folder that holds the data", plan.file.origin,
                    fmt::join(plan.left_out, "; "));
  return plan;
}

void print_left_out(const Plan& plan) {
  for (const auto& reason : plan.left_out) show(stdout, reason + "\n");
}

void report_all(const Plan& plan, const std::function<experiments::Results(const PlannedPart&)>& results_of) {
  std::vector<experiments::PartReport> reports;
  for (const auto& part : plan.parts) {
    auto results = results_of(part);
    results.compare_remeasured();
    reports.push_back(experiments::report_part(std::move(results), part.trials, part.out));
  }
  if (plan.file.has_parts) experiments::report_file(plan.file, reports, plan.left_out, plan.out);
}

/// The trials that are complete in the output folder.
experiments::Results local_results(const PlannedPart& part) {
  experiments::TrialStates states;
  auto results = experiments::begin_results(part.experiment, part.trials.size());
  for (const auto& trial : part.trials) {
    const auto state = states.find(part.experiment.entries[trial.entry], trial, true);
    if (state.complete) results.add(trial, trial.folder, state.seconds);
  }
  return results;
}

void print_trials(const Plan& plan) {
  experiments::TrialStates states;
  size_t complete = 0, count = 0;
  for (const auto& [experiment, out, trials] : plan.parts) {
    const auto part = experiment.part.empty() ? "" : experiment.part + ": ";
    count += trials.size();
    for (const auto& trial : trials) {
      const auto state = states.find(experiment.entries[trial.entry], trial, true);
      complete += state.complete ? 1 : 0;
      fmt::print("{}{}: {}\n", part, describe(experiment, trial),
                 state.complete  ? "complete"
                 : state.trained ? "trained, other test groups to be measured"
                 : state.stale   ? "made otherwise, needs --overwrite"
                                 : "to do");
    }
  }
  fmt::print("{} trials, {} complete; nothing was run\n", count, complete);
}

void submit(const ExperimentOptions& options, const Plan& plan) {
  if (const auto conflict = jobs::gpus_conflict(options.resources); !conflict.empty()) throw jobs::SweepError(conflict);
  QueueAccess access(options.queue, Start::if_needed);
  for (const auto& part : plan.parts) {
    if (!part.has_models()) continue;
    const auto sweep = experiments::sweep_of(part.experiment, part.trials, options.resources, options.priority);
    access.queue().create_sweep(sweep.spec);
    int64_t added = 0;
    for (const auto& job : sweep.jobs) added += access.queue().submit(job) ? 1 : 0;
    fmt::print("sweep {} ({}): {} jobs added, {} were there already; watch them with: foretime status {} --watch{}\n",
               sweep.spec.id, part.experiment.full_name(), added, std::ssize(sweep.jobs) - added, sweep.spec.id,
               options_naming(options.queue));
  }
  fmt::print("run them with: foretime agent{}\nthen, with the same options: foretime experiment {} --collect\n",
             options_naming(options.queue), options.name);
}

worker::RankResources resources_of(const Plan& plan) {
  const auto& trainer = plan.settings().trainer;
  return {trainer.device, trainer.threads};
}

/// Models' results from the queue; what is no model is made here.
void collect_jobs(const ExperimentOptions& options, const Plan& plan) {
  std::vector<experiments::Collection> collections;
  {
    QueueAccess access(options.queue, Start::to_read);
    for (const auto& part : plan.parts) {
      collections.emplace_back();
      if (!part.has_models()) continue;
      const auto sweep = experiments::sweep_of(part.experiment, part.trials, options.resources, options.priority);
      collections.back() = collect(part.experiment, part.trials, sweep, access.reader(), options.queue.runs);
    }
  }
  std::vector<std::vector<experiments::Trial>> own;
  for (const auto& part : plan.parts) {
    own.emplace_back();
    for (const auto& trial : part.trials)
      if (part.experiment.entries[trial.entry].kind != experiments::EntryKind::model) own.back().push_back(trial);
  }
  worker::with_communicator(plan.settings().comm, resources_of(plan), [&](comm::Communicator& comm) {
    for (size_t p = 0; p < own.size(); ++p)
      experiments::run_trials(plan.parts[p].experiment, own[p], options.overwrite, comm);
  });
  report_all(plan, [&](const PlannedPart& part) {
    const size_t p = &part - plan.parts.data();
    auto results = experiments::begin_results(part.experiment, part.trials.size());
    for (const auto& done : collections[p].trials) results.add(part.trials[done.trial], done.folder, done.seconds);
    for (const auto& trial : own[p]) results.add(trial, trial.folder, 0);
    for (const auto& [state, count] : collections[p].others)
      show(stdout, fmt::format("{}{} jobs: {}\n", part.experiment.part.empty() ? "" : part.experiment.part + ": ",
                               count, state));
    return results;
  });
}

void run(ExperimentOptions& options, int& exit_code) {
  if (options.quick) options.choice.variant = "quick";
  const auto plan = make_plan(options);
  if (options.dry_run || options.submit || options.collect || options.report) print_left_out(plan);
  if (options.dry_run) return print_trials(plan);
  if (options.submit) return submit(options, plan);
  for (const auto& part : plan.parts)
    experiments::expect_replaceable_report(part.experiment, part.trials, part.out, options.force);
  if (plan.file.has_parts)
    for (const auto* name : {"summary.md", "submission.csv"})
      expect_replaceable("", plan.out / name, FileKind::experiment, options.force);
  if (options.collect) return collect_jobs(options, plan);
  if (options.report) return report_all(plan, local_results);
  const bool deterministic = std::any_of(plan.parts.begin(), plan.parts.end(),
                                         [](const auto& part) { return part.experiment.base.trainer.deterministic; });
  if (deterministic) worker::make_deterministic();
  worker::with_communicator(plan.settings().comm, resources_of(plan), [&](comm::Communicator& comm) {
    if (comm.rank() == 0) print_left_out(plan);
    for (const auto& part : plan.parts) {
      if (!experiments::run_trials(part.experiment, part.trials, options.overwrite, comm)) {
        exit_code = kPreempted;
        return;
      }
    }
    comm::run_together(comm, [&] {
      if (comm.rank() == 0) report_all(plan, local_results);
    });
  });
}

}  // namespace

void add_experiment_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ExperimentOptions>();
  auto* command = app.add_subcommand("experiment", description_of("experiment"));
  needed_option(*command, "name", options->name, "a file, or a name in configs/experiments/", "NAME");
  typed_option(*command, "overrides", options->choice.overrides, "settings of every trial, over the file's",
               "KEY=VALUE");
  auto* variant = typed_option(*command, "--variant", options->choice.variant, "one of the file's variants", "NAME");
  command->add_flag("--quick", options->quick, "the variant quick: a smoke test, whose figures mean nothing")
      ->excludes(variant);
  typed_option(*command, "--entries", options->choice.entries, "only these, by their labels", "LABELS")
      ->delimiter(',')
      ->allow_extra_args(false);
  typed_option(*command, "--parts", options->choice.parts, "only these parts of the file", "NAMES")
      ->delimiter(',')
      ->allow_extra_args(false);
  typed_option(*command, "--data", options->choice.data_root, "data.root of all trials, relative to the working folder",
               "DIR");
  typed_option(*command, "--fractions", options->choice.fractions, "shares of the training data, e.g. 0.1,1", "SHARES")
      ->delimiter(',')
      ->allow_extra_args(false);
  checked_option(*command, "--seeds", options->choice.seeds, "number of seeds", CLI::Range(1, 1000), "N");
  typed_option(*command, "--out", options->out, "folder for trials and tables; default: runs/experiments/NAME", "DIR");
  command->add_flag("--overwrite", options->overwrite, "repeat trials that were made with other settings");
  add_force_flag(*command, options->force);
  auto* dry_run = command->add_flag("--dry-run", options->dry_run, "list the trials, and which are complete");
  auto* report = command->add_flag("--report", options->report, "tables of what is complete; train nothing");
  auto* submit = command->add_flag("--submit", options->submit, "submit the models' trials to the queue, as a sweep");
  auto* collect = command->add_flag("--collect", options->collect, "tables of the jobs that --submit made");
  report->excludes(dry_run);
  submit->excludes(dry_run)->excludes(report);
  collect->excludes(dry_run)->excludes(report)->excludes(submit);
  command->option_defaults()->group("Each job of --submit");
  const auto number = [&](const char* name, int64_t& value, const char* meaning, int64_t least) {
    checked_option(*command, name, value, meaning, CLI::Range(least, int64_t{65536}), "N");
  };
  number("--ranks", options->resources.ranks, "processes of mpirun", 1);
  number("--cpus", options->resources.cpus, "CPUs of each rank", 1);
  number("--gpus", options->resources.gpus, "GPUs of each rank", 0);
  checked_option(*command, "--priority", options->priority, "larger first",
                 CLI::Range(-jobs::Limits::kPriority, jobs::Limits::kPriority), "N");
  command->option_defaults()->group("Options");
  add_queue_options(*command, options->queue);
  command->footer(
      "A trial is one training run; those that are complete are not run again, and one that was interrupted\n"
      "continues. docs/reference/experiment-files.md has the grammar of the files.\n"
      "Examples:\n"
      "  foretime experiment resnet18-cross-workload --quick\n"
      "  mpirun -n 4 foretime experiment resnet18-cross-workload --entries MLP,GCN --seeds 5\n"
      "  foretime experiment resnet18-cross-workload --submit && foretime agent --until-empty\n"
      "  foretime experiment resnet18-cross-workload --collect\n"
      "  foretime experiment tpugraphs --data ../shared/data/tpugraphs --parts tile_from_pb");
  command->callback([options, &exit_code] { run(*options, exit_code); });
}

}  // namespace foretime::cli
