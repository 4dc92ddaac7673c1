#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/document.h"
#include "jobs/sweep/sweep_yaml.h"

namespace foretime::experiments {

/// The items of a list, each with the list's key and place. Throws jobs::SweepError where it is none.
std::vector<jobs::Entry> list_of(const jobs::Entry& entry);
/// A list of texts; a single text stands for a list of one.
std::vector<std::string> texts_of(const jobs::Entry& entry);

/// Throws jobs::SweepError where settings are set that belong to the experiment: its fractions and seeds, the folders
/// of its runs.
void check_own(const std::vector<jobs::SettingOverride>& overrides);
/// Applies settings in their order; each message has the place of the setting that it is about.
void apply_all(configs::Settings& settings, const std::vector<jobs::SettingOverride>& overrides);

/// The `entries` of an experiment. Settings files are relative to `folder`; `overrides`, the experiment's, go over
/// those. Throws jobs::SweepError and configs::SettingsError.
std::vector<ExperimentEntry> read_entries(const jobs::Entry& list, const std::string& origin,
                                          const std::filesystem::path& folder,
                                          const std::vector<jobs::SettingOverride>& overrides);

}  // namespace foretime::experiments
