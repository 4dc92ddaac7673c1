#pragma once

#include <filesystem>
#include <string_view>

#include "configs/settings.h"

namespace foretime::configs {

/// The first line of a run's config.yaml, which marks a folder as a run of Foretime.
inline constexpr std::string_view kRunMark = "# Foretime wrote this file: the settings of the run in this folder.\n";

/// Returns the settings in the config.yaml of a run directory, which others may have written (base/foreign_file.h).
/// Throws SettingsError if the file is missing or invalid, and the errors of read_foreign.
Settings settings_of_run(const std::filesystem::path& folder);

}  // namespace foretime::configs
