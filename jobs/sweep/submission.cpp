#include "jobs/sweep/submission.h"

#include <system_error>

#include "configs/load.h"
#include "configs/yaml_reader.h"
#include "jobs/error.h"
#include "jobs/sweep/finetune_job.h"
#include "jobs/sweep/program_trial.h"
#include "jobs/sweep/sweep.h"

namespace foretime::jobs {
namespace {

SweepPlan plan_of_one(JobSpec job) {
  return {{}, 1, [job = std::move(job)](const SweepPlan::Take& take) { take(JobSpec(job)); }};
}

void apply(const SubmissionChanges& changes, JobSpec& job) {
  if (changes.priority) job.priority = *changes.priority;
  if (changes.max_attempts) job.max_attempts = *changes.max_attempts;
  if (job.kind == JobKind::export_) return;              // an export only copies files
  if (changes.ranks && job.kind != JobKind::finetune) {  // that is one process
    const auto [least, most] = *changes.ranks;
    job.resources.ranks = least;
    job.resources.most_ranks = most > least ? most : 0;
  }
  if (changes.cpus) job.resources.cpus = *changes.cpus;
  if (changes.gpus) job.resources.gpus = *changes.gpus;
}

void check_resources(const SweepPlan& plan) {
  plan.each_job([&](JobSpec&& job) {
    if (job.settings == kSweepSettings) job.settings = plan.sweep.spec.settings;
    if (runs_program(job.settings)) return;
    auto conflict = gpus_conflict(job.resources);
    if (conflict.empty() && job.resources.elastic() && job.kind == JobKind::train && !job.deferred)
      conflict = elastic_conflict(trial_settings(job, job.parameters));
    if (!conflict.empty()) throw SweepError("job {}: {}", job.name, conflict);
  });
}

SweepPlan plan_of(const SubmissionFile& file, const SubmissionChanges& changes) {
  if (const auto* training = std::get_if<TrainingFile>(&file))
    return plan_of_one(training_job(*training, changes.overrides, changes.name));
  if (const auto* finetune = std::get_if<FinetuneFile>(&file))
    return plan_of_one(finetune_job(*finetune, changes.overrides, changes.name));
  auto overrides = changes.overrides;
  if (!changes.name.empty()) overrides.push_back("name=" + changes.name);
  return plan_sweep(std::get<SweepFile>(file), overrides);
}

}  // namespace

SubmissionFile read_submission(const std::filesystem::path& path) {
  std::error_code failure;
  if (!std::filesystem::is_regular_file(path, failure) && failure != std::errc::permission_denied)
    throw SweepError("{}: no such file, expected a sweep or settings (YAML)", path.string());
  FileText text{path, configs::read_yaml_text(path)};
  try {
    const YAML::Node root = configs::parse_yaml(text.yaml, path.string());
    if (root["finetune"]) return FinetuneFile{std::move(text)};
    if (root["method"] || root["parameters"]) return SweepFile{std::move(text)};
  } catch (const configs::SettingsError&) {
    // Whoever parses the text as settings reports what is wrong with it.
  }
  return TrainingFile{std::move(text)};
}

SweepPlan plan_submission(const SubmissionFile& file, const SubmissionChanges& changes) {
  auto plan = plan_of(file, changes);
  plan.each_job = [changes, each = std::move(plan.each_job)](const SweepPlan::Take& take) {
    each([&](JobSpec&& job) {
      apply(changes, job);
      take(std::move(job));
    });
  };
  if (changes.ranks || changes.gpus) check_resources(plan);
  return plan;
}

}  // namespace foretime::jobs
