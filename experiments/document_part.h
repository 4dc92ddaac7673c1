#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "configs/yaml_reader.h"
#include "experiments/document.h"

namespace foretime::experiments {

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

/// The `figures` of an experiment whose entries and metrics are known. Throws ExperimentError.
std::vector<FigureSpec> read_figures(const configs::YamlEntry& list, const std::string& origin,
                                     const Experiment& experiment);

}  // namespace foretime::experiments
