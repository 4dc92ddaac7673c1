#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "jobs/queue/job.h"

/// Reads `foretime finetune` jobs (docs/how-to/finetuning.md): a YAML file with the map `finetune` and the keys `after`
/// and `name`.
namespace foretime::jobs {

/// Holds the arguments of `foretime finetune` by key, each checked and in its command-line form, without the output
/// path. Keys that the file lacks are missing.
using FinetuneSettings = std::map<std::string, std::vector<std::string>>;

/// Describes a key of the map. The keys are in the order of the command line: each is an option --key, except `model`
/// and `records`, which are positional. Without `model`, the bundle of the job in `after` is used. Paths and files are
/// relative to the agent's first data root; files may be patterns.
struct FinetuneKey {
  enum Kind { path, files, text, number, flag };
  const char* name;
  Kind kind;
};
constexpr FinetuneKey kFinetuneKeys[] = {
    {"model", FinetuneKey::path},           {"records", FinetuneKey::files},  {"dags", FinetuneKey::path},
    {"member", FinetuneKey::text},          {"replay", FinetuneKey::files},   {"steps", FinetuneKey::number},
    {"learning_rate", FinetuneKey::number}, {"holdout", FinetuneKey::number}, {"tolerance", FinetuneKey::number},
    {"seed", FinetuneKey::number},          {"licence", FinetuneKey::text},   {"take_worse", FinetuneKey::flag}};

/// Returns whether a YAML file is a fine-tuning (has `finetune` at top level); false if it cannot be read.
bool is_finetune_file(const std::filesystem::path& file);

/// Returns the job of a fine-tuning file. `overrides` are key=value with keys of the map. An empty `name` means the one
/// in the file, or else the file's name. Throws SweepError with file, line (or override), key and value.
JobSpec finetune_job(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                     const std::string& name);

/// Parses JobSpec::settings of a fine-tuning job. Throws SweepError.
FinetuneSettings parse_finetune(const JobSpec& spec);

}  // namespace foretime::jobs
