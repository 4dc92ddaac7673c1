#pragma once

#include <functional>
#include <string>
#include <vector>

#include "configs/yaml_reader.h"

namespace foretime::jobs {

/// Holds a setting that a sweep file or its command line sets for every trial.
struct SettingOverride {
  std::string key, value;    // the two arguments of configs::apply_override
  configs::YamlEntry entry;  // entry of the file or command line, whose place messages name
};

/// Returns the leaves of a map of settings, nested or with dotted keys, by their full keys. `text` formats the values.
/// `origin` names the file in messages. Throws configs::SettingsError.
std::vector<SettingOverride> flatten_overrides(
    const configs::YamlEntry& map, const std::string& origin,
    const std::function<std::string(const configs::YamlEntry&)>& text = configs::override_text);
/// Throws SweepError, whose message names the place in the file, if a setting is unknown, malformed or out of bounds.
void check_overrides(const std::vector<SettingOverride>& overrides);

}  // namespace foretime::jobs
