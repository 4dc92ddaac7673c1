#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "configs/yaml_reader.h"
#include "experiments/document.h"

namespace foretime::experiments {

/// Applies settings in order; each error message has the position of its setting.
void apply_all(configs::Settings& settings, const std::vector<jobs::SettingOverride>& overrides);

/// Merges the keys of the file, a part of it and its variants; later ones override earlier ones.
struct PartKeys {
  std::map<std::string, configs::YamlEntry> keys;  // keys except overrides
  std::vector<configs::YamlEntry> overrides;       // applied before the entries' settings: the file's, then the part's
  std::vector<jobs::SettingOverride> last;         // applied after the entries' settings: the variants'
};

/// Returns the keys of an experiment, without those of the file (name, parts, variants) and of variants (extends).
const std::vector<std::string>& part_keys();

/// Reads one experiment. `named` has name, part and variant set. The caller selects entries by the command line. Throws
/// ExperimentError and configs::SettingsError.
Experiment read_part(const PartKeys& keys, Experiment named, const std::filesystem::path& folder,
                     const ExperimentChoice& choice);

}  // namespace foretime::experiments
