#include "jobs/sweep/finetune_job.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "configs/fields.h"
#include "configs/load.h"
#include "configs/yaml_reader.h"
#include "jobs/error.h"
#include "jobs/queue/queue.h"
#include "jobs/sweep/sweep.h"

namespace foretime::jobs {
namespace {

using configs::YamlEntry;

constexpr size_t kFiles = 4096;
constexpr int64_t kMostSteps = 1000000;
constexpr const char* kMetric = "holdout/kendall_tau";

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const auto& key : kFinetuneKeys) names.emplace_back(key.name);
  return names;
}

std::vector<std::string> texts_in(const YamlEntry& entry) {
  if (entry.node.IsScalar()) return {text_in(entry, Limits::kPath)};
  if (!entry.node.IsSequence()) fail(entry, "expected a list of files");
  if (entry.node.size() > kFiles) fail(entry, fmt::format("found {} files, at most {}", entry.node.size(), kFiles));
  std::vector<std::string> texts;
  for (const YAML::Node& item : entry.node)
    texts.push_back(configs::text_in({entry.key, item, entry.place}, Limits::kPath));
  return texts;
}

std::string number_of(const std::string& key, const YamlEntry& item) {
  if (key == "steps") return fmt::to_string(integer_in(item, 1, kMostSteps));
  if (key == "seed") return fmt::to_string(seed_in(item));
  const double value = number_in(item);
  if (key == "learning_rate" && value <= 0) fail(item, fmt::format("found {}, expected > 0", value));
  if (key == "tolerance" && value < 0) fail(item, fmt::format("found {}, expected >= 0", value));
  if (key == "holdout" && (value < 0 || value >= 1)) fail(item, fmt::format("found {}, expected in [0, 1)", value));
  return number_text(value);
}

void read_item(const std::string& name, const YamlEntry& item, FinetuneSettings& settings) {
  for (const auto& key : kFinetuneKeys) {
    if (name != key.name) continue;
    auto& values = settings[name];
    if (key.kind == FinetuneKey::files) values = texts_in(item);
    if (key.kind == FinetuneKey::path || key.kind == FinetuneKey::text) values = {text_in(item, Limits::kPath)};
    if (key.kind == FinetuneKey::number) values = {number_of(name, item)};
    if (key.kind == FinetuneKey::flag && flag_in(item)) values = {"true"};
    if (values.empty()) settings.erase(name);
  }
}

FinetuneSettings read_map(const YamlEntry& map, const std::string& origin, const std::vector<std::string>& overrides) {
  FinetuneSettings settings;
  const std::string prefix = map.key.empty() ? "" : map.key + ".";
  const auto keys = key_names();
  for (const YamlEntry& item : items_of(map, origin, prefix, keys))
    read_item(item.key.substr(prefix.size()), item, settings);
  for (const std::string& text : overrides) {
    const std::string place = "override " + text;
    const size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    if (equals == std::string::npos || std::find(keys.begin(), keys.end(), key) == keys.end())
      throw SweepError("{}: expected key=value, with one of {}", place, fmt::join(keys, ", "));
    const std::string value = text.substr(equals + 1);
    const auto node =
        value.starts_with('[') ? configs::parse_yaml("value: " + value, place)["value"] : YAML::Node(value);
    read_item(key, {key, node, place}, settings);
  }
  if (!settings.contains("records")) fail(map, "found no records, expected files of new measurements");
  return settings;
}

std::string to_yaml(const FinetuneSettings& settings) {
  std::string yaml;
  for (const auto& key : kFinetuneKeys) {
    const auto found = settings.find(key.name);
    if (found == settings.end()) continue;
    auto values = found->second;
    if (key.kind < FinetuneKey::number)
      std::transform(values.begin(), values.end(), values.begin(), configs::write_string);
    const bool list = key.kind == FinetuneKey::files;
    yaml += fmt::format("{}: {}{}{}\n", key.name, list ? "[" : "", fmt::join(values, ", "), list ? "]" : "");
  }
  return yaml;
}

}  // namespace

JobSpec finetune_job(const FinetuneFile& file, const std::vector<std::string>& overrides, const std::string& name) {
  const std::string origin = file.path.string();
  const YamlEntry root{"", configs::parse_yaml(file.yaml, origin), origin};
  JobSpec spec{.kind = JobKind::finetune, .name = file.path.stem().string(), .metric = kMetric};
  FinetuneSettings settings;
  for (const YamlEntry& item : items_of(root, origin, "", {"finetune", "after", "name"})) {
    if (item.key == "finetune") settings = read_map(item, origin, overrides);
    if (item.key == "name") spec.name = text_in(item, Limits::kName);
    if (item.key == "after") spec.after = {text_in(item, Limits::kName)};
  }
  if (!name.empty()) spec.name = name;
  const bool has_model = settings.contains("model");
  if (has_model != spec.after.empty())
    throw SweepError(
        "{}: found {}, expected one of them: the bundle to tune, or the fine-tuning job whose bundle it is", origin,
        has_model ? "finetune.model and after" : "neither finetune.model nor after");
  spec.settings = to_yaml(settings);
  try {
    spec.id = job_id(spec);
  } catch (const nlohmann::json::exception&) {
    throw SweepError("{}: found text that is not UTF-8", origin);
  }
  check(spec);
  return spec;
}

FinetuneSettings parse_finetune(const JobSpec& spec) {
  const std::string origin = "settings of job " + (spec.name.empty() ? spec.id : spec.name);
  return read_map({"", configs::parse_yaml(spec.settings, origin), origin}, origin, {});
}

}  // namespace foretime::jobs
