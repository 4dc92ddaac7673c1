#include <memory>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/experiment/collect.h"
#include "cli/experiment/report.h"
#include "cli/experiment/run_trials.h"
#include "cli/launch.h"
#include "cli/queue_access.h"
#include "cli/table.h"
#include "comm/communicator.h"
#include "coordinator/agree.h"
#include "worker/determinism.h"

namespace foretime::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  QueueOptions queue;
  std::string name, out;
  ExperimentChoice choice;
  jobs::Resources resources;
  int64_t priority = 0;
  bool quick = false, overwrite = false, dry_run = false, report = false, submit = false, collect = false;
};

fs::path output_of(const Options& options, const Experiment& experiment) {
  if (!options.out.empty()) return options.out;
  auto name = experiment.name;
  if (!experiment.variant.empty()) name += "-" + experiment.variant;
  return fs::path("runs") / "experiments" / name;
}

void print_report(const Results& results, const fs::path& out) {
  if (results.trials.empty()) {
    fmt::print("no trial is complete; nothing to report\n");
    return;
  }
  const auto files = write_report(results, out);
  fmt::print("\n{}\n\nwith {:.4g} % of the training data; {} of {} trials\n{}", results.experiment.title,
             100 * results.whole(), results.trials.size(), results.expected, format_table(metrics_table(results)));
  if (results.experiment.fractions.size() > 1)
    fmt::print("\nby share of the training data\n{}", format_table(shares_table(results)));
  fmt::print("\n{}: ", out.string());
  for (size_t i = 0; i < files.size(); ++i) fmt::print("{}{}", i == 0 ? "" : ", ", files[i]);
  fmt::print("\n");
}

/// The trials that are complete in the output folder.
Results local_results(const Experiment& experiment, const std::vector<Trial>& trials) {
  TrialStates states;
  auto results = begin_results(experiment, trials.size());
  for (const auto& trial : trials) {
    const auto state = states.find(experiment.entries[trial.entry], trial, true);
    if (state.complete) results.add(trial, trial.folder, state.seconds);
  }
  results.compare_remeasured();
  return results;
}

void print_trials(const Experiment& experiment, const std::vector<Trial>& trials) {
  TrialStates states;
  size_t complete = 0;
  for (const auto& trial : trials) {
    const auto state = states.find(experiment.entries[trial.entry], trial, true);
    complete += state.complete ? 1 : 0;
    fmt::print("{}: {}\n", describe(experiment, trial),
               state.complete ? "complete"
               : state.stale  ? "made otherwise, needs --overwrite"
                              : "to do");
  }
  fmt::print("{} trials, {} complete; nothing was run\n", trials.size(), complete);
}

void submit(const Options& options, const Experiment& experiment, const std::vector<Trial>& trials) {
  const auto sweep = sweep_of(experiment, trials, options.resources, options.priority);
  QueueAccess access(options.queue, Start::if_needed);
  access.queue().create_sweep(sweep.spec);
  int64_t added = 0;
  for (const auto& job : sweep.jobs) added += access.queue().submit(job) ? 1 : 0;
  fmt::print(
      "sweep {} ({}): {} jobs added, {} were there already\nrun them with: foretime agent\nwatch them with: foretime "
      "status {} --watch\nthen, with the same options: foretime experiment {} --collect\n",
      sweep.spec.id, experiment.name, added, static_cast<int64_t>(sweep.jobs.size()) - added, sweep.spec.id,
      options.name);
}

/// Models' results from the queue; what is no model is made here.
void collect_jobs(const Options& options, const Experiment& experiment, const std::vector<Trial>& trials,
                  const fs::path& out) {
  const auto sweep = sweep_of(experiment, trials, options.resources, options.priority);
  Collection collection;
  {
    QueueAccess access(options.queue, Start::never);
    collection = collect(experiment, trials, sweep, access.observer(), options.queue.runs);
  }
  std::vector<Trial> own;
  for (const auto& trial : trials) {
    if (experiment.entries[trial.entry].kind != EntryKind::model) own.push_back(trial);
  }
  with_communicator(experiment.base.comm, experiment.base.trainer.threads,
                    [&](comm::Communicator& comm) { run_trials(experiment, own, options.overwrite, comm); });
  auto results = begin_results(experiment, trials.size());
  for (const auto& done : collection.trials) results.add(trials[done.trial], done.folder, done.seconds);
  for (const auto& trial : own) results.add(trial, trial.folder, 0);
  results.compare_remeasured();
  for (const auto& [state, count] : collection.others) fmt::print("{} jobs: {}\n", count, state);
  print_report(results, out);
}

void run(Options& options, int& exit_code) {
  if (options.quick) options.choice.variant = "quick";
  const auto experiment = load_experiment(find_experiment(options.name), options.choice);
  const auto out = output_of(options, experiment);
  const auto trials = trials_of(experiment, out);
  if (options.dry_run) return print_trials(experiment, trials);
  if (options.submit) return submit(options, experiment, trials);
  if (options.collect) return collect_jobs(options, experiment, trials, out);
  if (options.report) return print_report(local_results(experiment, trials), out);
  if (experiment.base.trainer.deterministic) worker::make_deterministic();
  with_communicator(experiment.base.comm, experiment.base.trainer.threads, [&](comm::Communicator& comm) {
    if (!run_trials(experiment, trials, options.overwrite, comm)) {
      exit_code = coordinator::kPreempted;
      return;
    }
    coordinator::run_together(comm, [&] {
      if (comm.rank() == 0) print_report(local_results(experiment, trials), out);
    });
  });
}

}  // namespace

void add_experiment_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  auto* command =
      app.add_subcommand("experiment", "Train and compare models on shares of the data, with tables and figures");
  command->add_option("name", options->name, "a file, or a name in configs/experiments/")
      ->required()
      ->type_name("NAME");
  command->add_option("overrides", options->choice.overrides, "settings of every trial, over the file's")
      ->type_name("KEY=VALUE");
  auto* variant =
      command->add_option("--variant", options->choice.variant, "one of the file's variants")->type_name("NAME");
  command->add_flag("--quick", options->quick, "the variant quick: a small form, to see that it works")
      ->excludes(variant);
  command->add_option("--entries", options->choice.entries, "only these, by their labels")
      ->delimiter(',')
      ->type_name("LABELS");
  command->add_option("--fractions", options->choice.fractions, "shares of the training data, e.g. 0.1,1")
      ->delimiter(',')
      ->type_name("SHARES");
  command->add_option("--seeds", options->choice.seeds, "number of seeds")->check(CLI::Range(1, 1000))->type_name("N");
  command->add_option("--out", options->out, "folder for trials, tables and figures; default: runs/experiments/NAME")
      ->type_name("DIR");
  command->add_flag("--overwrite", options->overwrite, "make trials anew that were made with other settings");
  auto* dry_run = command->add_flag("--dry-run", options->dry_run, "list the trials, and which are complete");
  auto* report =
      command->add_flag("--report", options->report, "tables and figures of what is complete; train nothing");
  auto* submit = command->add_flag("--submit", options->submit, "submit the models' trials to the queue, as a sweep");
  auto* collect = command->add_flag("--collect", options->collect, "tables and figures of the jobs that --submit made");
  report->excludes(dry_run);
  submit->excludes(dry_run)->excludes(report);
  collect->excludes(dry_run)->excludes(report)->excludes(submit);
  const auto number = [&](const char* name, int64_t& value, const char* meaning, int64_t least) {
    command->add_option(name, value, meaning)
        ->check(CLI::Range(least, int64_t{65536}))
        ->type_name("N")
        ->group("Each job of --submit");
  };
  number("--ranks", options->resources.ranks, "processes of mpirun", 1);
  number("--cpus", options->resources.cpus, "CPUs of each rank", 1);
  number("--gpus", options->resources.gpus, "GPUs of each rank", 0);
  command->add_option("--priority", options->priority, "larger first")
      ->check(CLI::Range(-jobs::Limits::kPriority, jobs::Limits::kPriority))
      ->type_name("N")
      ->group("Each job of --submit");
  add_queue_options(*command, options->queue);
  command->footer(
      "A trial is one training run; those that are complete are not run again, and one that was interrupted\n"
      "continues. docs/experiments.md has the grammar of the files.\n"
      "Examples:\n"
      "  foretime experiment resnet18-cross-workload --quick\n"
      "  mpirun -n 4 foretime experiment resnet18-cross-workload --entries MLP,GCN --seeds 5\n"
      "  foretime experiment resnet18-cross-workload --submit && foretime agent --until-empty\n"
      "  foretime experiment resnet18-cross-workload --collect");
  command->callback([options, &exit_code] { run(*options, exit_code); });
}

}  // namespace foretime::cli
