#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "configs/yaml_reader.h"
#include "experiments/document.h"

namespace foretime::experiments {

/// Applies settings in their order; each message has the place of the setting that it is about.
void apply_all(configs::Settings& settings, const std::vector<jobs::SettingOverride>& overrides);

/// What the file, a part of it and its variants say together, the later over the earlier.
struct PartKeys {
  std::map<std::string, configs::YamlEntry> keys;  // without overrides
  std::vector<configs::YamlEntry> overrides;       // below the entries' own settings: the file's, then the part's
  std::vector<jobs::SettingOverride> last;         // over them: the variants'
};

/// Keys of an experiment, but for the file's own (name, parts, variants) and those of variants (extends).
const std::vector<std::string>& part_keys();

/// Reads one experiment. `named`: name, part and variant are set. The entries of the command line are chosen by the
/// caller. Throws ExperimentError and configs::SettingsError.
Experiment read_part(const PartKeys& keys, Experiment named, const std::filesystem::path& folder,
                     const ExperimentChoice& choice);

}  // namespace foretime::experiments
