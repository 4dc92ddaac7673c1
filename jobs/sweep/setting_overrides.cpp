#include "jobs/sweep/setting_overrides.h"

#include "configs/load.h"
#include "configs/settings.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

using configs::YamlEntry;

using TextOf = std::function<std::string(const YamlEntry&)>;

void flatten(const YamlEntry& entry, const std::string& origin, const TextOf& text,
             std::vector<SettingOverride>& leaves) {
  if (!entry.node.IsMap()) {
    leaves.push_back({entry.key, text(entry), entry});
    return;
  }
  for (const YamlEntry& item : items_of(entry, origin, entry.key.empty() ? "" : entry.key + ".", {}))
    flatten(item, origin, text, leaves);
}

}  // namespace

std::vector<SettingOverride> flatten_overrides(const YamlEntry& map, const std::string& origin, const TextOf& text) {
  std::vector<SettingOverride> leaves;
  for (const YamlEntry& item : items_of(map, origin, "", {})) flatten(item, origin, text, leaves);
  return leaves;
}

void check_overrides(const std::vector<SettingOverride>& overrides) {
  configs::Settings probe;
  for (const SettingOverride& item : overrides) {
    try {
      configs::apply_override(probe, item.key, item.value);
    } catch (const configs::SettingsError& error) {
      throw SweepError("{}: {}", item.entry.place, error.what());
    }
  }
}

}  // namespace foretime::jobs
