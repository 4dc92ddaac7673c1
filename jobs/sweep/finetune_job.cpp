#include "jobs/sweep/finetune_job.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "configs/load.h"
#include "configs/values.h"
#include "configs/yaml_reader.h"
#include "jobs/error.h"
#include "jobs/queue/queue.h"

namespace foretime::jobs {
namespace {

using configs::YamlEntry;

constexpr size_t kFiles = 4096;
constexpr int64_t kMostSteps = 1000000;
constexpr const char* kMetric = "holdout/kendall_tau";

const std::vector<std::string> kFinetuneKeys = {"model",         "records", "dags",      "member", "replay",  "steps",
                                                "learning_rate", "holdout", "tolerance", "seed",   "licence", "force"};

std::vector<std::string> texts_in(const YamlEntry& entry) {
  if (entry.node.IsScalar()) return {text_in(entry, Limits::kPath)};
  if (!entry.node.IsSequence()) fail(entry, "expected a list of files");
  if (entry.node.size() > kFiles) fail(entry, fmt::format("found {} files, at most {}", entry.node.size(), kFiles));
  std::vector<std::string> texts;
  for (const YAML::Node& item : entry.node)
    texts.push_back(configs::text_in({entry.key, item, entry.place}, Limits::kPath));
  return texts;
}

void read_item(const std::string& key, const YamlEntry& item, FinetuneSettings& settings) {
  if (key == "model") settings.model = text_in(item, Limits::kPath);
  if (key == "records") settings.records = texts_in(item);
  if (key == "dags") settings.dags = text_in(item, Limits::kPath);
  if (key == "member") settings.member = text_in(item, Limits::kPath);
  if (key == "replay") settings.replay = texts_in(item);
  if (key == "steps") settings.steps = integer_in(item, 1, kMostSteps);
  if (key == "seed") settings.seed = seed_in(item);
  if (key == "licence") settings.licence = text_in(item, Limits::kPath);
  if (key == "force") settings.force = flag_in(item);
  if (key == "learning_rate") {
    settings.learning_rate = number_in(item);
    if (*settings.learning_rate <= 0) fail(item, fmt::format("found {}, expected > 0", *settings.learning_rate));
  }
  if (key == "tolerance") {
    settings.tolerance = number_in(item);
    if (*settings.tolerance < 0) fail(item, fmt::format("found {}, expected >= 0", *settings.tolerance));
  }
  if (key == "holdout") {
    settings.holdout = number_in(item);
    if (*settings.holdout < 0 || *settings.holdout >= 1)
      fail(item, fmt::format("found {}, expected in [0, 1)", *settings.holdout));
  }
}

FinetuneSettings read_map(const YamlEntry& map, const std::string& origin, const std::vector<std::string>& overrides) {
  FinetuneSettings settings;
  const std::string prefix = map.key.empty() ? "" : map.key + ".";
  for (const YamlEntry& item : items_of(map, origin, prefix, kFinetuneKeys))
    read_item(item.key.substr(prefix.size()), item, settings);
  for (const std::string& text : overrides) {
    const std::string place = "override " + text;
    const size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    if (equals == std::string::npos ||
        std::find(kFinetuneKeys.begin(), kFinetuneKeys.end(), key) == kFinetuneKeys.end())
      throw SweepError("{}: expected key=value, with one of {}", place, fmt::join(kFinetuneKeys, ", "));
    const std::string value = text.substr(equals + 1);
    const auto node =
        value.starts_with('[') ? configs::parse_yaml("value: " + value, place)["value"] : YAML::Node(value);
    read_item(key, {key, node, place}, settings);
  }
  if (settings.records.empty()) fail(map, "found no records, expected files of new measurements");
  return settings;
}

std::string list_of(const std::vector<std::string>& files) {
  std::vector<std::string> quoted;
  for (const auto& file : files) quoted.push_back(configs::write_string(file));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

std::string to_yaml(const FinetuneSettings& settings) {
  std::string yaml;
  const auto add = [&](const char* key, const std::string& value) { yaml += fmt::format("{}: {}\n", key, value); };
  if (!settings.model.empty()) add("model", configs::write_string(settings.model));
  add("records", list_of(settings.records));
  if (!settings.dags.empty()) add("dags", configs::write_string(settings.dags));
  if (!settings.member.empty()) add("member", configs::write_string(settings.member));
  if (!settings.replay.empty()) add("replay", list_of(settings.replay));
  if (settings.steps) add("steps", fmt::to_string(*settings.steps));
  if (settings.learning_rate) add("learning_rate", number_text(*settings.learning_rate));
  if (settings.holdout) add("holdout", number_text(*settings.holdout));
  if (settings.tolerance) add("tolerance", number_text(*settings.tolerance));
  if (settings.seed) add("seed", fmt::to_string(*settings.seed));
  if (!settings.licence.empty()) add("licence", configs::write_string(settings.licence));
  if (settings.force) add("force", "true");
  return yaml;
}

}  // namespace

bool is_finetune_file(const std::filesystem::path& file) {
  try {
    for (const auto& item : configs::parse_yaml(configs::read_yaml_text(file.string()), file.string())) {
      if (item.first.IsScalar() && item.first.Scalar() == "finetune") return true;
    }
  } catch (const configs::SettingsError&) {
    // Whoever reads it as settings says what is wrong with it.
  }
  return false;
}

JobSpec finetune_job(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                     const std::string& name) {
  const std::string origin = file.string();
  const YamlEntry root{"", configs::parse_yaml(configs::read_yaml_text(origin), origin), origin};
  JobSpec spec{.kind = JobKind::finetune, .name = file.stem().string(), .metric = kMetric};
  FinetuneSettings settings;
  for (const YamlEntry& item : items_of(root, origin, "", {"finetune", "after", "name"})) {
    if (item.key == "finetune") settings = read_map(item, origin, overrides);
    if (item.key == "name") spec.name = text_in(item, Limits::kName);
    if (item.key == "after") spec.after = {text_in(item, Limits::kName)};
  }
  if (!name.empty()) spec.name = name;
  if (settings.model.empty() == spec.after.empty()) {
    throw SweepError(
        "{}: found {}, expected one of them: the bundle to tune, or the fine-tuning job whose bundle it is", origin,
        settings.model.empty() ? "neither finetune.model nor after" : "finetune.model and after");
  }
  spec.settings = to_yaml(settings);
  try {
    spec.id = job_id(spec);
  } catch (const nlohmann::json::exception&) {
    throw SweepError("{}: found text that is no UTF-8", origin);
  }
  check(spec);
  return spec;
}

FinetuneSettings parse_finetune(const JobSpec& spec) {
  const std::string origin = "settings of job " + (spec.name.empty() ? spec.id : spec.name);
  return read_map({"", configs::parse_yaml(spec.settings, origin), origin}, origin, {});
}

}  // namespace foretime::jobs
