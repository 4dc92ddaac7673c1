#include "experiments/run_trials.h"

#include <fmt/format.h>

#include "comm/agree.h"
#include "configs/load.h"
#include "coordinator/run_directory.h"
#include "coordinator/run_resources.h"
#include "experiments/baseline_trial.h"
#include "sharding/dataset_index.h"
#include "worker/run/training_run.h"

namespace foretime::experiments {
namespace {

std::string what_differs(const configs::Settings& before, const configs::Settings& now) {
  auto text = coordinator::config_differences(before, now);
  const auto add = [&](const char* name, int64_t a, int64_t b) {
    if (a != b) text += fmt::format("\n  {}: {} -> {}", name, a, b);
  };
  add("trainer.steps", before.trainer.steps, now.trainer.steps);
  add("trainer.epochs", before.trainer.epochs, now.trainer.epochs);
  add("trainer.eval_every", before.trainer.eval_every, now.trainer.eval_every);
  return text.empty() ? "\n  the data, or parameters of the entry" : text;
}

/// Tells all ranks what rank 0 found.
TrialState agreed(comm::Communicator& comm, const TrialState& own) {
  const auto bytes = comm.broadcast_bytes(fmt::format("{}{}", own.complete ? 'c' : '-', own.stale ? 's' : '-'), 0);
  TrialState state = own;
  state.complete = bytes[0] == 'c';
  state.stale = bytes[1] == 's';
  return state;
}

}  // namespace

uint64_t TrialStates::fingerprint(const configs::Settings& settings) {
  configs::Settings chosen;
  chosen.data = settings.data;
  chosen.data.train_fraction = 1;
  chosen.sampler.max_segment_nodes = settings.sampler.max_segment_nodes;
  chosen.segments = settings.segments;
  chosen.shard = settings.shard;
  const auto key = configs::to_yaml(chosen);
  const auto found = fingerprints_.find(key);
  if (found != fingerprints_.end()) return found->second;
  return fingerprints_[key] = sharding::make_dataset_index(settings).fingerprint();
}

TrialState TrialStates::find(const ExperimentEntry& entry, const Trial& trial, bool overwrite) {
  TrialState state;
  state.key = record_key(entry, trial.settings, fingerprint(trial.settings));
  const auto record = read_trial_record(trial.folder);
  if (record && record->key == state.key) {
    state.complete = true;
    state.seconds = record->seconds;
    return state;
  }
  std::string differences;
  const auto config = trial.folder / "config.yaml";
  const bool has_config = entry.kind == EntryKind::model && std::filesystem::exists(config);
  if (has_config) {
    const auto before = configs::load_settings(config);
    if (record || trial_key(entry, before) != trial_key(entry, trial.settings))
      differences = what_differs(before, trial.settings);
  } else if (record) {
    differences = "\n  its settings, or the data";
  }
  state.stale = !differences.empty();
  if (state.stale && !overwrite)
    throw configs::SettingsError(
        fmt::format("{}: holds a trial that was made otherwise:{}\nname another folder with "
                    "--out, or make such trials anew with --overwrite",
                    trial.folder.string(), differences));
  return state;
}

bool run_trials(const Experiment& experiment, const std::vector<Trial>& trials, bool overwrite,
                comm::Communicator& comm) {
  TrialStates states;
  const bool root = comm.rank() == 0;
  for (size_t i = 0; i < trials.size(); ++i) {
    const auto& trial = trials[i];
    const auto& entry = experiment.entries[trial.entry];
    TrialState state;
    comm::run_together(comm, [&] {
      if (root) state = states.find(entry, trial, overwrite);
    });
    state = agreed(comm, state);
    if (root)
      fmt::print(stderr, "trial {} of {}: {}{}\n", i + 1, trials.size(), describe(experiment, trial),
                 state.complete ? ": is there" : "");
    if (state.complete) continue;
    if (root && state.stale) std::filesystem::remove(trial.folder / "trial.json");
    const coordinator::ResourceMeter meter;
    if (entry.kind == EntryKind::model) {
      auto settings = trial.settings;
      settings.run.overwrite = state.stale;
      std::vector<worker::NamedEvaluation> rows;
      if (!worker::train_model(settings, comm, {}, rows)) return false;
    }
    comm::run_together(comm, [&] {
      if (!root) return;
      if (entry.kind != EntryKind::model) {
        run_baseline_trial(entry, trial);
        coordinator::write_run_resources(trial.folder, {meter.seconds(), meter.peak_memory(), meter.peak_memory()});
      }
      write_trial_record(trial.folder, {state.key, meter.seconds()});
    });
  }
  return true;
}

}  // namespace foretime::experiments
