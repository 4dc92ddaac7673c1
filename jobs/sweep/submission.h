#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

/// Reads the YAML files of `foretime submit`, each once, and plans their jobs.
namespace foretime::jobs {

struct SweepPlan;  // jobs/sweep/sweep.h

/// Holds the text of a file. The types below differ in the keys at its top level.
struct FileText {
  std::filesystem::path path;  // names the file in messages; paths in a sweep are relative to its folder
  std::string yaml;
};
struct TrainingFile : FileText {};  // settings of `foretime train`: none of the keys below, or no YAML
struct SweepFile : FileText {};     // `method` or `parameters`
struct FinetuneFile : FileText {};  // `finetune`
using SubmissionFile = std::variant<TrainingFile, SweepFile, FinetuneFile>;

/// Reads a file. Does not check its YAML. Throws SweepError if the path is no regular file, configs::SettingsError if
/// the file cannot be read or is too large, and StorageError if the storage fails.
SubmissionFile read_submission(const std::filesystem::path& path);

/// Holds what a submission changes. Empty members leave the file's values.
struct SubmissionChanges {
  std::string name;                                  // name of the sweep or job
  std::vector<std::string> overrides;                // key=value, for every job
  std::optional<std::pair<int64_t, int64_t>> ranks;  // least and most ranks of each job
  std::optional<int64_t> priority, cpus, gpus, max_attempts;
};

/// Returns the checked jobs of a file; a single job is a sweep without an id. Throws SweepError or
/// configs::SettingsError with file, line or override, and key; also if a job would leave GPUs idle, or would not train
/// the same on other numbers of ranks.
SweepPlan plan_submission(const SubmissionFile& file, const SubmissionChanges& changes);

}  // namespace foretime::jobs
