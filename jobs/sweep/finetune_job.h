#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "jobs/queue/job.h"

/// `foretime finetune` as a job (docs/how-to/finetuning.md): a YAML file with the one map `finetune`, and `after` and
/// `name` beside it.
namespace foretime::jobs {

/// Exit code of `foretime finetune` where the new bundle has the weights of its parent (README).
constexpr int kParentKept = 6;

/// What such a job says: the arguments of `foretime finetune` by key, each checked and as it stands on a command line,
/// without where the new bundle goes. What was not said is missing.
using FinetuneSettings = std::map<std::string, std::vector<std::string>>;

/// A key of the map, in the order of the command line: an option --key, but for `model` and `records`, which stand
/// alone. Without `model` the bundle is the one that the job in `after` made. Paths and files are relative to the
/// agent's first data root; files may be patterns.
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

/// Whether a YAML file is a fine-tuning (has `finetune` at top level); false where it cannot be read.
bool is_finetune_file(const std::filesystem::path& file);

/// The job of such a file. `overrides`: key=value, with keys of the map; `name` empty: the file's own, else its name.
/// Throws SweepError with file, line (or override), key and value.
JobSpec finetune_job(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                     const std::string& name);

/// Reads JobSpec::settings of such a job. Throws SweepError.
FinetuneSettings parse_finetune(const JobSpec& spec);

}  // namespace foretime::jobs
