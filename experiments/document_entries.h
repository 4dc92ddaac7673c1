#pragma once

#include <filesystem>
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

}  // namespace foretime::experiments
