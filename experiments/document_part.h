#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "configs/yaml_reader.h"
#include "experiments/document.h"

namespace foretime::experiments {

/// Applies the overrides in order. Throws ExperimentError, which names the place of an invalid override.
void apply_all(configs::Settings& settings, const std::vector<jobs::SettingOverride>& overrides);

/// Holds the keys of one part: those of the file, replaced by those of the part, replaced by those of the variants.
struct PartKeys {
  std::map<std::string, configs::YamlEntry> keys;  // keys except overrides
  std::vector<configs::YamlEntry> overrides;       // applied before the entries' settings: the file's, then the part's
  std::vector<jobs::SettingOverride> last;         // applied after the entries' settings: the variants'
};

/// Returns the keys that a part may have; not name, parts and variants of the file, nor extends of variants.
const std::vector<std::string>& part_keys();

/// Reads the experiment with these keys. `named` has origin, name, part and variant set. Settings files are looked up
/// in `folder`. Returns all entries, also those that choice.entries omits. Throws ExperimentError and SettingsError.
Experiment read_part(const PartKeys& keys, Experiment named, const std::filesystem::path& folder,
                     const ExperimentChoice& choice);

}  // namespace foretime::experiments
