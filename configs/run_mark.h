#pragma once

#include <string_view>

namespace foretime::configs {

/// The first line of a run's config.yaml, by which a folder is known to be a run that Foretime made.
inline constexpr std::string_view kRunMark = "# Foretime wrote this file: the settings of the run in this folder.\n";

}  // namespace foretime::configs
