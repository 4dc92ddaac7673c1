#pragma once

#include <map>
#include <string>
#include <vector>

#include "jobs/queue/job.h"
#include "jobs/sweep/submission.h"

/// Reads `foretime finetune` jobs (docs/how-to/finetuning.md): YAML with the map `finetune`, `after` and `name`.
namespace foretime::jobs {

/// The arguments of `foretime finetune` by the keys of the map, each checked and in its command-line form. Keys that
/// the file lacks and the output path are missing.
using FinetuneSettings = std::map<std::string, std::vector<std::string>>;

/// Describes a key of the map `finetune`. kFinetuneKeys has the keys in the order of the command line: `model` and
/// `records` are positional, and the others are options. Without `model`, the bundle of the job in `after` is used.
struct FinetuneKey {
  /// path: relative to the agent's first data root; files: a list of such paths or patterns; flag: true or left out.
  enum Kind { path, files, text, number, flag };
  const char* name;
  Kind kind;
};
constexpr FinetuneKey kFinetuneKeys[] = {
    {"model", FinetuneKey::path},           {"records", FinetuneKey::files},  {"dags", FinetuneKey::path},
    {"member", FinetuneKey::text},          {"replay", FinetuneKey::files},   {"steps", FinetuneKey::number},
    {"learning_rate", FinetuneKey::number}, {"holdout", FinetuneKey::number}, {"tolerance", FinetuneKey::number},
    {"seed", FinetuneKey::number},          {"licence", FinetuneKey::text},   {"take_worse", FinetuneKey::flag}};

/// Returns the job of a fine-tuning file. `overrides` are key=value with keys of the map `finetune`. An empty `name`
/// means `name` in the file, or else the name of the file. Throws SweepError or configs::SettingsError, whose message
/// names the file and line (or the override) and the key.
JobSpec finetune_job(const FinetuneFile& file, const std::vector<std::string>& overrides, const std::string& name);

/// Parses JobSpec::settings of a fine-tuning job. Throws configs::SettingsError.
FinetuneSettings parse_finetune(const JobSpec& spec);

}  // namespace foretime::jobs
