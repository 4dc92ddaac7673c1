#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/jobs/job_view.h"
#include "cli/jobs/queue_access.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "jobs/error.h"
#include "jobs/sweep/finetune_job.h"
#include "jobs/sweep/sweep.h"

namespace foretime::cli {
namespace {

using Json = nlohmann::json;

struct SubmitOptions {
  QueueOptions queue;
  std::string file, name;
  std::vector<std::string> overrides;
  std::optional<int64_t> priority, ranks, cpus, gpus, max_attempts;
  bool dry_run = false, json = false;
};

/// What a file asks for. A single job is a sweep without an id.
jobs::Sweep load(const SubmitOptions& options) {
  jobs::Sweep sweep;
  if (!std::filesystem::is_regular_file(options.file))
    throw jobs::SweepError("{}: no such file, expected a sweep or settings (YAML)", options.file);
  if (jobs::is_finetune_file(options.file)) {
    sweep.jobs = {jobs::finetune_job(options.file, options.overrides, options.name)};
  } else if (jobs::is_sweep_file(options.file)) {
    auto overrides = options.overrides;
    if (!options.name.empty()) overrides.push_back("name=" + options.name);
    sweep = jobs::load_sweep(options.file, overrides);
  } else {
    sweep.jobs = {jobs::single_job(options.file, options.overrides, options.name)};
  }
  for (auto& job : sweep.jobs) {
    if (options.priority) job.priority = *options.priority;
    if (options.max_attempts) job.max_attempts = *options.max_attempts;
    if (job.kind == jobs::JobKind::export_) continue;                                                // it copies files
    if (options.ranks && job.kind != jobs::JobKind::finetune) job.resources.ranks = *options.ranks;  // one process
    if (options.cpus) job.resources.cpus = *options.cpus;
    if (options.gpus) job.resources.gpus = *options.gpus;
  }
  return sweep;
}

/// Columns for what differs between trials.
std::string trial_table(const std::vector<jobs::JobSpec>& specs) {
  std::set<std::string> keys;
  for (const auto& spec : specs) {
    for (const auto& [key, value] : spec.parameters) keys.insert(key);
  }
  std::vector<std::vector<std::string>> rows = {{"id", "kind", "name", "trial", "after"}};
  rows.front().insert(rows.front().end(), keys.begin(), keys.end());
  for (const auto& spec : specs) {
    std::vector<std::string> row = {spec.id, jobs::to_string(spec.kind), shown(spec.name, 40),
                                    spec.trial < 0 ? "-" : fmt::format("{}", spec.trial),
                                    spec.after.empty() ? "-" : spec.after.front()};
    for (const auto& key : keys) {
      const auto found = spec.parameters.find(key);
      row.push_back(found == spec.parameters.end() ? spec.deferred ? "(later)" : "-" : shown(found->second, 40));
    }
    rows.push_back(std::move(row));
  }
  return format_table(rows);
}

struct Added {
  bool sweep = false;
  std::vector<bool> jobs;  // beside Sweep::jobs
  int64_t count() const { return std::count(jobs.begin(), jobs.end(), true); }
};

Added submit(const jobs::Sweep& sweep, jobs::JobQueue& queue) {
  Added added;
  if (!sweep.spec.id.empty()) added.sweep = queue.create_sweep(sweep.spec);
  for (const auto& job : sweep.jobs) added.jobs.push_back(queue.submit(job));
  return added;
}

Json submission_json(const jobs::Sweep& sweep, const Added* added) {
  Json list = Json::array();
  for (size_t i = 0; i < sweep.jobs.size(); ++i) {
    const auto& spec = sweep.jobs[i];
    Json job = {{"id", spec.id},       {"kind", jobs::to_string(spec.kind)}, {"name", spec.name},
                {"trial", spec.trial}, {"parameters", spec.parameters},      {"after", spec.after}};
    if (added != nullptr) job["added"] = static_cast<bool>(added->jobs[i]);
    list.push_back(std::move(job));
  }
  Json json = {{"sweep", sweep.spec.id.empty() ? Json() : Json(sweep.spec.id)},
               {"name", sweep.spec.name},
               {"jobs", std::move(list)},
               {"warnings", sweep.warnings}};
  if (added != nullptr) {
    json["added"] = added->count();
    json["existing"] = static_cast<int64_t>(sweep.jobs.size()) - added->count();
  }
  return json;
}

std::string where(const SubmitOptions& options) {
  std::string text;
  if (!options.queue.redis.empty()) text += " --redis " + options.queue.redis;
  if (options.queue.runs != "runs") text += " --runs " + options.queue.runs;
  return text;
}

std::string summary(const SubmitOptions& options, const jobs::Sweep& sweep, const Added& added) {
  const int64_t all = static_cast<int64_t>(sweep.jobs.size()), there = all - added.count();
  if (sweep.spec.id.empty()) {
    const auto& id = sweep.jobs.front().id;
    return there > 0 ? fmt::format("job {} was there already; nothing was added (foretime status {})\n", id, id)
                     : fmt::format("job {} added; run it with: foretime agent{}\n", id, where(options));
  }
  const auto& spec = sweep.spec;
  auto text = fmt::format("sweep {} ({}{}{} {} trials): {} jobs added", spec.id, shown(spec.name, 60),
                          spec.name.empty() ? "" : ", ", spec.trials, spec.method, added.count());
  if (there > 0) text += fmt::format(", {} were there already", there);
  text += "\n";
  if (added.count() > 0) text += fmt::format("run them with: foretime agent{}\n", where(options));
  return text + fmt::format("watch them with: foretime status {} --watch{}\n", spec.id, where(options));
}

void run(const SubmitOptions& options) {
  const auto sweep = load(options);
  for (const auto& warning : sweep.warnings) fmt::print(stderr, "warning: {}\n", warning);
  if (options.dry_run) {
    fmt::print("{}",
               options.json
                   ? submission_json(sweep, nullptr).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
                   : trial_table(sweep.jobs) + fmt::format("{} jobs; nothing was submitted\n", sweep.jobs.size()));
    return;
  }
  QueueAccess access(options.queue, Start::if_needed);
  const auto added = submit(sweep, access.queue());
  fmt::print("{}", options.json
                       ? submission_json(sweep, &added).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
                       : summary(options, sweep, added));
}

}  // namespace

void add_submit_command(CLI::App& app) {
  auto options = std::make_shared<SubmitOptions>();
  auto* command = app.add_subcommand("submit", "Submit a sweep, one training job or one fine-tuning, to the queue");
  needed_option(*command, "file", options->file,
                "a sweep (W&B's grammar, docs/reference/sweep-files.md), settings of foretime train, or a "
                "fine-tuning (docs/how-to/finetuning.md)",
                "FILE");
  typed_option(*command, "overrides", options->overrides, "settings that replace the file's, for every trial",
               "KEY=VALUE");
  typed_option(*command, "--name", options->name, "name of the sweep or job, for people", "TEXT");
  checked_option(*command, "--priority", options->priority, "larger first; 0 where the file says nothing",
                 CLI::Range(-jobs::Limits::kPriority, jobs::Limits::kPriority), "N");
  const auto number = [&](const char* name, std::optional<int64_t>& value, const char* meaning, int64_t least) {
    checked_option(*command, name, value, meaning, CLI::Range(least, int64_t{65536}), "N")
        ->group("Each job (over the file's)");
  };
  number("--ranks", options->ranks, "processes of mpirun", 1);
  number("--cpus", options->cpus, "CPUs of each rank", 1);
  number("--gpus", options->gpus, "GPUs of each rank", 0);
  number("--max-attempts", options->max_attempts, "failures after which a job is dead", 1);
  command->add_flag("--dry-run", options->dry_run, "check and print the trials; needs no Redis");
  command->add_flag("--json", options->json, "print JSON");
  add_queue_options(*command, options->queue);
  command->footer(
      "The whole file is checked before anything is submitted. A job's id is made from what it would do: the same "
      "file\n"
      "again adds nothing, and a file with more trials adds those.\n"
      "Examples:\n"
      "  foretime submit configs/sweeps/quickstart.yaml --dry-run\n"
      "  foretime submit configs/sweeps/quickstart.yaml trainer.steps=500 --priority 10\n"
      "  foretime submit configs/quickstart.yaml optimizer.learning_rate=3e-4 --redis redis://head:6379");
  command->callback([options] { run(*options); });
}

}  // namespace foretime::cli
