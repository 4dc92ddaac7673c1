#include <functional>
#include <memory>
#include <optional>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/message.h"
#include "base/numbers.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/jobs/job_view.h"
#include "cli/jobs/queue_access.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "jobs/error.h"
#include "jobs/sweep/program_trial.h"
#include "jobs/sweep/submission.h"
#include "jobs/sweep/sweep.h"

namespace foretime::cli {
namespace {

using Json = nlohmann::json;

struct SubmitOptions {
  QueueOptions queue;
  std::string file;
  std::string ranks;  // N or MIN-MAX
  jobs::SubmissionChanges changes;
  bool dry_run = false, json = false;
};

constexpr int64_t kMostRanks = 65536;

/// The least and the most of N or MIN-MAX; empty where it is neither.
std::optional<std::pair<int64_t, int64_t>> parse_ranks(const std::string& text) {
  const auto number = [](std::string_view digits) {
    const auto value = parse_number<int64_t>(digits).value_or(0);
    return value <= kMostRanks ? value : 0;
  };
  const auto dash = text.find('-');
  const auto least = number(std::string_view(text).substr(0, dash));
  const auto most = dash == std::string::npos ? least : number(std::string_view(text).substr(dash + 1));
  if (least < 1 || most < least) return std::nullopt;
  return std::pair(least, most);
}

/// Columns for what differs between trials. The jobs are made several times, and never held together.
void print_trials(const jobs::SweepPlan& plan) {
  std::set<std::string> keys;
  plan.each_job([&](jobs::JobSpec&& job) {
    for (const auto& [key, value] : job.parameters) keys.insert(key);
  });
  std::vector<std::string> header = {"id", "kind", "name", "trial", "after"};
  header.insert(header.end(), keys.begin(), keys.end());
  const auto row_of = [&](const jobs::JobSpec& job) {
    std::vector<std::string> row = {job.id, jobs::to_string(job.kind), one_line(job.name, 40),
                                    job.trial < 0 ? "-" : fmt::format("{}", job.trial),
                                    job.after.empty() ? "-" : job.after.front()};
    for (const auto& key : keys) {
      const auto found = job.parameters.find(key);
      row.push_back(found == job.parameters.end() ? job.deferred ? "(later)" : "-" : parameter_text(found->second, 40));
    }
    return row;
  };
  TableColumns columns(output_width());
  columns.fit(header);
  plan.each_job([&](jobs::JobSpec&& job) { columns.fit(row_of(job)); });
  bool first = true;
  for (const auto& block : columns.blocks()) {
    fmt::print("{}{}{}", std::exchange(first, false) ? "" : "\n", columns.line(header, block), columns.rule(block));
    plan.each_job([&](jobs::JobSpec&& job) { fmt::print("{}", columns.line(row_of(job), block)); });
  }
}

constexpr size_t kJobsAtOnce = 512;

/// Submits all jobs; `tell` hears of each whether it was added. Returns how many were.
int64_t submit(const jobs::SweepPlan& plan, jobs::JobQueue& queue,
               const std::function<void(const jobs::JobSpec&, bool added)>& report) {
  int64_t count = 0;
  std::vector<jobs::JobSpec> some;
  bool created = plan.sweep.spec.id.empty();
  const auto send = [&] {
    // Jobs that the queue would refuse leave no empty sweep behind: what one of them demands, all do.
    for (const auto& job : some) jobs::check(job);
    if (!std::exchange(created, true)) queue.create_sweep(plan.sweep.spec);
    const auto added = queue.submit_all(some);
    for (size_t i = 0; i < some.size(); ++i) {
      if (added[i]) ++count;
      report(some[i], added[i]);
    }
    some.clear();
  };
  plan.each_job([&](jobs::JobSpec&& job) {
    some.push_back(std::move(job));
    if (some.size() == kJobsAtOnce) send();
  });
  if (!some.empty()) send();
  return count;
}

Json job_json(const jobs::JobSpec& spec) {
  return {{"id", spec.id},       {"kind", jobs::to_string(spec.kind)}, {"name", spec.name},
          {"trial", spec.trial}, {"parameters", spec.parameters},      {"after", spec.after}};
}

/// Prints the end of a submission's JSON. `added`: empty where nothing was submitted.
void print_end(JsonListPrinter& printer, const jobs::SweepPlan& plan, std::optional<int64_t> added) {
  const auto& sweep = plan.sweep;
  Json rest = {{"sweep", sweep.spec.id.empty() ? Json() : Json(sweep.spec.id)},
               {"name", sweep.spec.name},
               {"warnings", sweep.warnings}};
  if (added) {
    rest["added"] = *added;
    rest["existing"] = plan.count - *added;
  }
  printer.end(rest);
}

/// The option that the agents of a sweep need where it runs a program: the folder of the program is this one or the
/// sweep file's, whichever has it.
std::string programs_option(const SubmitOptions& options, const jobs::SweepPlan& plan) {
  const auto& settings = plan.sweep.spec.settings;
  if (!jobs::runs_program(settings)) return "";
  const auto program = jobs::parse_program(settings).program;
  const auto sweep_folder = std::filesystem::path(options.file).parent_path();
  const bool here = program.empty() || files().exists(program);
  if (!here && files().exists(sweep_folder / program))
    return fmt::format(" --programs {}", shell_word(sweep_folder.string()));
  if (!here)
    print_message(
        "warning: {}: program: found no file {} in this folder, "
        "expected one in the folder that agents get by --programs\n",
        options.file, program);
  return " --programs .";
}

/// The folders with data of the jobs that agents started in this folder may not read by themselves: absolute ones, and
/// those behind symbolic links.
std::string data_root_options(const jobs::SweepPlan& plan) {
  namespace fs = std::filesystem;
  std::set<std::string> outside;
  std::error_code failure;
  const auto here = fs::canonical(".", failure);
  const auto look_at = [&](const fs::path& folder) {
    const auto real = fs::canonical(folder, failure);
    if (!failure && std::ranges::mismatch(here, real).in1 != here.end()) outside.insert(real.string());
  };
  bool first = true;
  plan.each_job([&](jobs::JobSpec&& job) {
    if (!std::exchange(first, false) || job.kind != jobs::JobKind::train) return;
    if (job.settings == jobs::kSweepSettings) job.settings = plan.sweep.spec.settings;
    if (jobs::runs_program(job.settings)) return;
    const auto data = jobs::trial_settings(job, job.parameters).data;
    look_at(data.root);
    for (const auto* names : {&data.train, &data.valid, &data.test}) {
      for (const auto& name : *names) {
        const auto file = fs::path(data.root) / name;
        if (fs::is_symlink(file, failure)) look_at(fs::canonical(file, failure).parent_path());
      }
    }
  });
  std::string options = outside.empty() ? "" : " --data-root .";
  for (const auto& folder : outside) options += " --data-root " + shell_word(folder);
  return options;
}

/// Returns advice about jobs of a sweep, or the job `id`, that ended without success; empty if none did. `queue_words`:
/// the options that name the queue.
std::string advice_about_failures(const std::string& queue_words, jobs::QueueReader& reader, const std::string& sweep,
                                  const std::string& id) {
  int64_t unreadable = 0, failed = 0;
  for (const auto& state : reader.states(sweep.empty() ? std::vector{id} : reader.ids_of_sweep(sweep), unreadable))
    if (state == jobs::JobState::failed || state == jobs::JobState::dead || state == jobs::JobState::cancelled)
      ++failed;
  if (failed == 0) return "";
  return fmt::format("{} of them ended without success and {} not run again by this: foretime retry {}{}{}\n", failed,
                     failed == 1 ? "is" : "are", sweep.empty() ? id : sweep, queue_words,
                     sweep.empty() ? "" : ", or another search with seed=2");
}

/// `first`: id of the first job.
std::string summary(const SubmitOptions& options, const jobs::SweepPlan& plan, int64_t added, const std::string& first,
                    jobs::QueueReader& reader) {
  const int64_t there = plan.count - added;
  const auto& spec = plan.sweep.spec;
  const auto queue_words = options_naming(options.queue);
  const auto advice = there > 0 ? advice_about_failures(queue_words, reader, spec.id, first) : "";
  if (spec.id.empty())
    return there > 0 ? fmt::format("job {} was there already; nothing was added (foretime status {}{})\n{}", first,
                                   first, queue_words, advice)
                     : fmt::format("job {} added; run it with: foretime agent{}{}\n", first, data_root_options(plan),
                                   queue_words);
  auto text = fmt::format("sweep {} ({}{}{} {} trials): {} jobs added", spec.id, one_line(spec.name, 60),
                          spec.name.empty() ? "" : ", ", spec.trials, spec.method, added);
  if (there > 0) text += fmt::format(", {} were there already", there);
  text += "\n" + advice;
  if (added > 0)
    text += fmt::format("run them with: foretime agent{}{}{}\n", programs_option(options, plan),
                        data_root_options(plan), queue_words);
  return text + fmt::format("watch them with: foretime status {} --watch{}\n", spec.id, queue_words);
}

void dry_run(const SubmitOptions& options, const jobs::SweepPlan& plan) {
  if (!options.json) {
    print_trials(plan);
    fmt::print("{} jobs; nothing was submitted\n", plan.count);
    return;
  }
  JsonListPrinter printer("jobs");
  plan.each_job([&](jobs::JobSpec&& job) { printer.add(job_json(job)); });
  print_end(printer, plan, {});
}

void run(const SubmitOptions& options) {
  const auto file = jobs::read_submission(options.file);
  const auto plan = jobs::plan_submission(file, options.changes);
  for (const auto& warning : plan.sweep.warnings) print_message("warning: {}\n", warning);
  if (options.dry_run) {
    dry_run(options, plan);
    return;
  }
  QueueAccess access(options.queue, Start::if_needed);
  JsonListPrinter printer("jobs");
  std::string first;
  const auto added = submit(plan, access.queue(), [&](const jobs::JobSpec& job, bool is_new) {
    if (first.empty()) first = job.id;
    if (!options.json) return;
    auto json = job_json(job);
    json["added"] = is_new;
    printer.add(json);
  });
  if (options.json) print_end(printer, plan, added);
  else fmt::print("{}", summary(options, plan, added, first, access.reader()));
}

}  // namespace

void add_submit_command(CLI::App& app) {
  auto options = std::make_shared<SubmitOptions>();
  jobs::SubmissionChanges& changes = options->changes;
  auto* command = app.add_subcommand("submit", "Submit a sweep, one training job or one fine-tuning, to the queue");
  needed_option(*command, "file", options->file,
                "a sweep (W&B's grammar, docs/reference/sweep-files.md), "
                "settings of foretime train, or a fine-tuning (docs/how-to/finetuning.md)",
                "FILE");
  typed_option(*command, "overrides", changes.overrides, "settings that replace the file's, for every trial",
               "KEY=VALUE");
  typed_option(*command, "--name", changes.name, "name of the sweep or job, for people", "TEXT");
  checked_option(*command, "--priority", changes.priority, "larger first; 0 where the file says nothing",
                 CLI::Range(-jobs::Limits::kPriority, jobs::Limits::kPriority), "N");
  const auto number = [&](const char* name, std::optional<int64_t>& value, const char* meaning, int64_t least,
                          int64_t most = 65536) {
    checked_option(*command, name, value, meaning, CLI::Range(least, most), "N")->group("Each job (over the file's)");
  };
  const auto ranks_fault = [](const std::string& text) {
    return parse_ranks(text)
               ? ""
               : fmt::format(
                     "found {}, expected a number from 1 to {} such as 4, or the least and the most such as 2-8", text,
                     kMostRanks);
  };
  checked_option(*command, "--ranks", options->ranks,
                 "processes of mpirun: a number, or as many from MIN to MAX as are free when an attempt starts",
                 CLI::Validator(ranks_fault, "", "ranks"), "N|MIN-MAX")
      ->group("Each job (over the file's)");
  number("--cpus", changes.cpus, "CPUs of each rank", 1);
  number("--gpus", changes.gpus, "GPUs of each rank", 0);
  number("--max-attempts", changes.max_attempts, "failures after which a job is dead", 1, jobs::Limits::kAttempts);
  command->add_flag("--dry-run", options->dry_run, "check and print the trials; needs no Redis");
  command->add_flag("--json", options->json, "print JSON");
  add_queue_options(*command, options->queue);
  command->footer(
      "The whole file is checked before anything is submitted. "
      "A job's id is made from what it would do: the same file\n"
      "again adds nothing, and a file with more trials adds those.\n"
      "Examples:\n"
      "  foretime submit configs/sweeps/quickstart.yaml --dry-run\n"
      "  foretime submit configs/sweeps/quickstart.yaml trainer.steps=500 --priority 10\n"
      "  foretime submit configs/quickstart.yaml optimizer.learning_rate=3e-4 --redis redis://head:6379");
  command->callback([options] {
    options->changes.ranks = parse_ranks(options->ranks);
    run(*options);
  });
}

}  // namespace foretime::cli
