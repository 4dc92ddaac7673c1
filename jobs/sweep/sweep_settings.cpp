#include "jobs/sweep/sweep_settings.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "configs/load.h"
#include "jobs/error.h"
#include "jobs/sweep/sweep.h"

namespace foretime::jobs {
namespace {

using configs::YamlEntry;

void flatten(const YamlEntry& entry, const std::string& origin, std::vector<SettingOverride>& leaves) {
  if (!entry.node.IsMap()) {
    leaves.push_back({entry.key, override_text(entry), entry});
    return;
  }
  for (const YamlEntry& item : items_of(entry, origin, entry.key.empty() ? "" : entry.key + ".", {}))
    flatten(item, origin, leaves);
}

}  // namespace

std::vector<SettingOverride> flatten_overrides(const YamlEntry& map, const std::string& origin) {
  std::vector<SettingOverride> leaves;
  for (const YamlEntry& item : items_of(map, origin, "", {})) flatten(item, origin, leaves);
  return leaves;
}

void check_overrides(const std::vector<SettingOverride>& overrides) {
  configs::Settings probe;
  for (const SettingOverride& item : overrides) {
    try {
      configs::apply_override(probe, item.key, item.value);
    } catch (const configs::SettingsError& error) {
      throw SweepError(fmt::format("{}: {}", item.entry.place, error.what()));
    }
  }
}

void prepare_for_queue(configs::Settings& settings) {
  settings.run = {};
  settings.data.allowed_roots.clear();
  if (settings.checkpoint.every_steps == 0) settings.checkpoint.every_steps = settings.trainer.eval_every;
}

bool is_sweep_file(const std::filesystem::path& file) {
  try {
    const YAML::Node root = configs::parse_yaml(configs::read_yaml_text(file.string()), file.string());
    for (const auto& item : root) {
      const std::string key = item.first.IsScalar() ? item.first.Scalar() : "";
      if (key == "method" || key == "parameters") return true;
    }
  } catch (const configs::SettingsError&) {
    // Whoever reads it as settings says what is wrong with it.
  }
  return false;
}

JobSpec single_job(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                   const std::string& name) {
  configs::Settings settings = configs::load_settings(file, overrides);
  prepare_for_queue(settings);
  JobSpec spec;
  spec.kind = JobKind::train;
  spec.name = name.empty() ? file.stem().string() : name;
  if (spec.name.size() > Limits::kName)
    throw SweepError(fmt::format("name: found {} bytes, expected at most {}", spec.name.size(), Limits::kName));
  spec.settings = configs::to_yaml(settings);
  if (spec.settings.size() > Limits::kSettings) {
    throw SweepError(fmt::format("{}: found {} bytes of settings, expected at most {}: shorten its lists of files",
                                 file.string(), spec.settings.size(), Limits::kSettings));
  }
  spec.metric = settings.trainer.metric;
  spec.maximize = settings.trainer.metric_goal == configs::Goal::maximize;
  try {
    spec.id = job_id(spec);
  } catch (const nlohmann::json::exception&) {
    throw SweepError(fmt::format("{}: found text that is no UTF-8", file.string()));
  }
  return spec;
}

configs::Settings trial_settings(const JobSpec& spec, const Parameters& parameters) {
  const std::string origin = "settings of job " + (spec.name.empty() ? spec.id : spec.name);
  configs::Settings settings = configs::parse_settings(spec.settings, origin);
  for (const auto& [key, value] : parameters) configs::apply_override(settings, key, value);
  prepare_for_queue(settings);
  return configs::parse_settings(configs::to_yaml(settings), origin);  // contradictions between keys
}

}  // namespace foretime::jobs
