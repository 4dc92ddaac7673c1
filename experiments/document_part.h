#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "configs/yaml_reader.h"
#include "experiments/document.h"

namespace foretime::experiments {

/// The items of a list, each with the list's key and place. Throws ExperimentError where it is none.
std::vector<configs::YamlEntry> list_of(const configs::YamlEntry& entry);
/// A list of texts; a single text stands for a list of one.
std::vector<std::string> texts_of(const configs::YamlEntry& entry);

/// Throws ExperimentError where settings are set that belong to the experiment: its fractions and seeds, the folders
/// of its runs.
void check_own(const std::vector<jobs::SettingOverride>& overrides);
/// Applies settings in their order; each message has the place of the setting that it is about.
void apply_all(configs::Settings& settings, const std::vector<jobs::SettingOverride>& overrides);

/// The `entries` of an experiment. Settings files are relative to `folder`; `overrides`, the experiment's, go over
/// those. Throws ExperimentError and configs::SettingsError.
std::vector<ExperimentEntry> read_entries(const configs::YamlEntry& list, const std::string& origin,
                                          const std::filesystem::path& folder,
                                          const std::vector<jobs::SettingOverride>& overrides);

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
