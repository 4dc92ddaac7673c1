#include "cli/experiment/trials.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "configs/consistency.h"
#include "configs/load.h"
#include "coordinator/checkpoint_store.h"
#include "jobs/error.h"

namespace foretime::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecord = "trial.json";

configs::Settings settings_of(const Experiment& experiment, const ExperimentEntry& entry, double fraction,
                              uint64_t seed) {
  auto settings = experiment.base;
  const auto set = [&](const std::string& key, const std::string& value, const std::string& place) {
    try {
      configs::apply_override(settings, key, value);
    } catch (const configs::SettingsError& error) {
      throw jobs::SweepError(fmt::format("{}: {}", place, error.what()));
    }
  };
  for (const auto* overrides : {&entry.set, &experiment.last}) {
    for (const auto& item : *overrides) set(item.key, item.value, item.entry.place);
  }
  set("data.train_fraction", fmt::format("{}", fraction), experiment.origin);
  set("trainer.seed", fmt::format("{}", seed), experiment.origin);
  settings.trainer.baselines.clear();
  settings.checkpoint.resume = "auto";
  const auto conflict = configs::find_conflict(settings);
  if (!conflict.empty()) throw jobs::SweepError(fmt::format("{}: {}: {}", experiment.origin, entry.label, conflict));
  return settings;
}

std::string folder_name(const ExperimentEntry& entry, double fraction, uint64_t seed) {
  return fmt::format("{}/fraction-{}/seed-{}", entry.slug(), fraction, seed);
}

jobs::Parameters parameters_of(const ExperimentEntry& entry, const Trial& trial) {
  jobs::Parameters parameters;
  for (const auto& item : entry.set) parameters[item.key] = item.value;
  parameters["data.train_fraction"] = fmt::format("{}", trial.fraction);
  parameters["trainer.seed"] = fmt::format("{}", trial.seed);
  return parameters;
}

}  // namespace

std::vector<Trial> trials_of(const Experiment& experiment, const fs::path& out) {
  std::vector<Trial> trials;
  auto fractions = experiment.fractions;
  std::reverse(fractions.begin(), fractions.end());
  for (const uint64_t seed : experiment.seeds) {
    for (const double fraction : fractions) {
      for (size_t e = 0; e < experiment.entries.size(); ++e) {
        const auto& entry = experiment.entries[e];
        Trial trial{e, fraction, seed, settings_of(experiment, entry, fraction, seed), {}};
        trial.folder = out / "trials" / folder_name(entry, fraction, seed);
        trial.settings.run.directory = trial.folder.string();
        trials.push_back(std::move(trial));
      }
    }
  }
  return trials;
}

std::string describe(const Experiment& experiment, const Trial& trial) {
  return fmt::format("{}, {:.4g} % of the training data, seed {}", experiment.entries[trial.entry].label,
                     100 * trial.fraction, trial.seed);
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
  own.data.confine.clear();
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
                       boosted.statements, boosted.target, boosted.preset, boosted.rounds);
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
  coordinator::write_file_atomically(folder / kRecord, json.dump(2) + "\n");
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
    job.name = fmt::format("{}/{}", experiment.name, folder_name(entry, trial.fraction, trial.seed));
    job.trial = static_cast<int64_t>(sweep.jobs.size());
    job.settings = configs::to_yaml(settings);
    job.parameters = parameters_of(entry, trial);
    job.metric = settings.trainer.metric;
    job.maximize = settings.trainer.metric_goal == "maximize";
    job.resources = resources;
    job.priority = priority;
    content += job.settings;
    sweep.jobs.push_back(std::move(job));
  }
  if (sweep.jobs.empty())
    throw jobs::SweepError(fmt::format("{}: found no entry of kind model, which alone are jobs", experiment.origin));
  auto& spec = sweep.spec;
  spec.id = jobs::content_id(content);
  spec.name = experiment.name;
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

}  // namespace foretime::cli
