#include "experiments/trials.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "configs/consistency.h"
#include "configs/load.h"
#include "coordinator/checkpoint_store.h"
#include "experiments/document_entries.h"
#include "experiments/error.h"
#include "experiments/folds.h"
#include "jobs/error.h"

namespace foretime::experiments {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecord = "trial.json";

/// What is compared is measured on the same candidates. Throws ExperimentError naming the setting that says otherwise.
void check_measured(const Experiment& experiment, const ExperimentEntry& entry, const configs::DataSettings& own) {
  const auto& base = experiment.base.data;
  const auto need = [&](const char* name, const auto& found, const auto& expected) {
    if (found != expected)
      throw ExperimentError(
          fmt::format("{}: {}: {}: found {}, expected {} as the experiment has it: entries are measured on the same "
                      "candidates; set it under overrides",
                      experiment.origin, entry.label, name, found, expected));
  };
  need("data.format", word_of(own.format), word_of(base.format));
  need("data.max_eval_candidates", own.max_eval_candidates, base.max_eval_candidates);
  if (experiment.folds.count > 0) {
    need("data.root", own.root, base.root);
    return;
  }
  need("data.eval_indices", own.eval_indices, base.eval_indices);
  if (std::find(experiment.sets.begin(), experiment.sets.end(), "holdout") != experiment.sets.end())
    need("data.holdout", own.holdout, base.holdout);
}

/// The settings of an entry, but for what the trial chooses.
configs::Settings settings_of(const Experiment& experiment, const ExperimentEntry& entry) {
  auto settings = entry.own ? *entry.own : experiment.base;
  apply_all(settings, entry.set);
  apply_all(settings, experiment.last);
  check_measured(experiment, entry, settings.data);
  settings.trainer.baselines.clear();
  settings.checkpoint.resume = "auto";
  return settings;
}

std::string folder_name(const ExperimentEntry& entry, const Trial& trial) {
  auto name = fmt::format("{}/fraction-{}/seed-{}", entry.slug(), trial.fraction, trial.seed);
  if (trial.fold >= 0) name += fmt::format("/fold-{}", trial.fold);
  return name;
}

/// What the leaderboard shows. Entries with settings files of their own differ in more than has room there.
jobs::Parameters parameters_of(const ExperimentEntry& entry, const Trial& trial) {
  jobs::Parameters parameters;
  if (entry.own) {
    parameters["model.type"] = word_of(trial.settings.model.type);
    parameters["model.tile_join"] = word_of(trial.settings.model.tile_join);
    parameters["loss.type"] = word_of(trial.settings.loss.type);
    parameters["sampler.max_segment_nodes"] = fmt::format("{}", trial.settings.sampler.max_segment_nodes);
  }
  for (const auto& item : entry.set) parameters[item.key] = item.value;
  parameters["data.train_fraction"] = fmt::format("{}", trial.fraction);
  parameters["trainer.seed"] = fmt::format("{}", trial.seed);
  return parameters;
}

}  // namespace

std::vector<Trial> trials_of(const Experiment& experiment, const fs::path& out) {
  std::vector<Trial> trials;
  const auto folds = make_folds(experiment);
  const auto count = std::max<int64_t>(1, static_cast<int64_t>(folds.size()));
  auto fractions = experiment.fractions;
  std::reverse(fractions.begin(), fractions.end());
  for (const uint64_t seed : experiment.seeds) {
    for (const double fraction : fractions) {
      for (size_t e = 0; e < experiment.entries.size(); ++e) {
        const auto& entry = experiment.entries[e];
        for (int64_t f = 0; f < count; ++f) {
          Trial trial{e, fraction, seed, settings_of(experiment, entry), {}, folds.empty() ? -1 : f};
          trial.settings.data.train_fraction = fraction;
          trial.settings.trainer.seed = seed;
          if (!folds.empty()) apply_fold(folds[static_cast<size_t>(f)], trial.settings, experiment.origin);
          const auto conflict = configs::find_conflict(trial.settings);
          if (!conflict.empty())
            throw ExperimentError(fmt::format("{}: {}: {}", experiment.origin, entry.label, conflict));
          trial.folder = out / "trials" / folder_name(entry, trial);
          trial.settings.run.directory = trial.folder.string();
          trials.push_back(std::move(trial));
        }
      }
    }
  }
  return trials;
}

std::string describe(const Experiment& experiment, const Trial& trial) {
  auto text = fmt::format("{}, {:.4g} % of the training data, seed {}", experiment.entries[trial.entry].label,
                          100 * trial.fraction, trial.seed);
  if (trial.fold >= 0) text += fmt::format(", fold {}", trial.fold);
  return text;
}

std::string trial_key(const ExperimentEntry& entry, const configs::Settings& settings) {
  auto own = settings;
  const configs::Settings defaults;
  own.run = defaults.run;
  const auto gradient_dtype = own.comm.gradient_dtype;
  own.comm = defaults.comm;
  own.comm.gradient_dtype = gradient_dtype;
  own.checkpoint = defaults.checkpoint;
  own.checkpoint.keep_best = settings.checkpoint.keep_best;
  own.data.allowed_roots.clear();
  own.data.read_threads = defaults.data.read_threads;
  own.trainer.threads = defaults.trainer.threads;
  own.trainer.device = defaults.trainer.device;
  own.trainer.log_every = defaults.trainer.log_every;
  own.trainer.eval_states = defaults.trainer.eval_states;
  if (entry.kind != EntryKind::model) {  // which candidates, and no more
    own.model = defaults.model;
    own.loss = defaults.loss;
    own.optimizer = defaults.optimizer;
    own.sampler = defaults.sampler;
    own.segments = defaults.segments;
    const auto seed = own.trainer.seed;
    own.trainer = defaults.trainer;
    own.trainer.seed = seed;
  }
  auto key = to_string(entry.kind) + "\n" + configs::to_yaml(own);
  if (entry.kind == EntryKind::xgboost) {
    const auto& boosted = entry.xgboost;
    key += fmt::format("{} {} {} {} {} {} {}\n", fmt::join(boosted.features, " "), boosted.records, boosted.dags,
                       boosted.rows == BoostedRows::statements, boosted.target, boosted.preset, boosted.rounds);
    if (boosted.rows == BoostedRows::layout_codes) key += "layout codes\n";
  }
  return key;
}

std::string record_key(const ExperimentEntry& entry, const configs::Settings& settings, uint64_t data_fingerprint) {
  return jobs::content_id(fmt::format("{}{:016x}", trial_key(entry, settings), data_fingerprint));
}

std::optional<TrialRecord> read_trial_record(const fs::path& folder) {
  if (!fs::exists(folder / kRecord) || !fs::exists(folder / "rankings.csv")) return std::nullopt;
  const auto json = nlohmann::json::parse(coordinator::read_file(folder / kRecord), nullptr, false);
  if (!json.is_object() || !json.contains("key") || !json["key"].is_string()) return std::nullopt;
  const auto seconds = json.find("seconds");
  return TrialRecord{json["key"].get<std::string>(),
                     seconds != json.end() && seconds->is_number() ? seconds->get<double>() : 0.0};
}

void write_trial_record(const fs::path& folder, const TrialRecord& record) {
  const nlohmann::json json = {{"key", record.key}, {"seconds", record.seconds}};
  write_file_atomically(folder / kRecord, json.dump(2) + "\n");
}

jobs::Sweep sweep_of(const Experiment& experiment, const std::vector<Trial>& trials, const jobs::Resources& resources,
                     int64_t priority) {
  jobs::Sweep sweep;
  std::string content = "experiment\n";
  for (const auto& trial : trials) {
    const auto& entry = experiment.entries[trial.entry];
    if (entry.kind != EntryKind::model) continue;
    auto settings = trial.settings;
    jobs::prepare_for_queue(settings);
    jobs::JobSpec job;
    job.name = fmt::format("{}/{}", experiment.full_name(), folder_name(entry, trial));
    job.trial = static_cast<int64_t>(sweep.jobs.size());
    job.settings = configs::to_yaml(settings);
    job.parameters = parameters_of(entry, trial);
    job.metric = settings.trainer.metric;
    job.maximize = settings.trainer.metric_goal == configs::Goal::maximize;
    job.resources = resources;
    job.priority = priority;
    content += job.settings;
    sweep.jobs.push_back(std::move(job));
  }
  if (sweep.jobs.empty())
    throw ExperimentError(fmt::format("{}: found no entry of kind model, which alone are jobs", experiment.origin));
  auto& spec = sweep.spec;
  spec.id = jobs::content_id(content);
  spec.name = experiment.full_name();
  spec.method = "grid";
  spec.definition = jobs::to_json(jobs::SearchSpace{});
  spec.metric = sweep.jobs.front().metric;
  spec.maximize = sweep.jobs.front().maximize;
  spec.trials = static_cast<int64_t>(sweep.jobs.size());
  for (auto& job : sweep.jobs) {
    job.sweep = spec.id;
    job.id = jobs::job_id(job);
  }
  return sweep;
}

}  // namespace foretime::experiments
