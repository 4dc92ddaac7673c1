#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "configs/settings.h"
#include "configs/yaml_reader.h"

namespace foretime::jobs {

/// A setting that a sweep file or its command line sets for every trial.
struct SettingOverride {
  std::string key, value;    // as configs::apply_override takes them
  configs::YamlEntry entry;  // for messages
};

/// The leaves of a map of settings, nested or with dotted keys.
std::vector<SettingOverride> flatten_overrides(const configs::YamlEntry& map, const std::string& origin);
/// Throws SweepError, with the place in the sweep, where one is unknown, malformed or out of bounds by itself.
void check_overrides(const std::vector<SettingOverride>& overrides);

/// What a job's settings do not say: the agent chooses the run's folder and the folders that may be read, so `run` and
/// data.allowed_roots are put back to their defaults. And what retries need: where checkpoint.every_steps is 0 and
/// trainer.eval_every is not, there is a checkpoint at every evaluation.
void prepare_for_queue(configs::Settings& settings);

}  // namespace foretime::jobs
