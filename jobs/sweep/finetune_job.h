#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "jobs/queue/job.h"

/// `foretime finetune` as a job (docs/how-to/finetuning.md): a YAML file with the one map `finetune`, and `after` and
/// `name` beside it.
namespace foretime::jobs {

/// Exit code of `foretime finetune` where the new bundle has the weights of its parent (README).
constexpr int kParentKept = 6;

/// What such a job says: arguments of `foretime finetune`, without where the new bundle goes. Files are relative to the
/// agent's first data root; those to learn from may be patterns.
struct FinetuneSettings {
  std::string model;  // a bundle; empty: the bundle that the job in `after` made
  std::vector<std::string> records, replay;
  std::string dags;    // compute DAGs of tuning records; empty: there are none
  std::string member;  // of save_json text; empty: it has one
  std::optional<int64_t> steps;
  std::optional<double> learning_rate, holdout, tolerance;
  std::optional<uint64_t> seed;
  std::string licence;  // empty: that of the bundle
  bool force = false;
};

/// Whether a YAML file is a fine-tuning (has `finetune` at top level); false where it cannot be read.
bool is_finetune_file(const std::filesystem::path& file);

/// The job of such a file. `overrides`: key=value, with keys of the map; `name` empty: the file's own, else its name.
/// Throws SweepError with file, line (or override), key and value.
JobSpec finetune_job(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                     const std::string& name);

/// Reads JobSpec::settings of such a job. Throws SweepError.
FinetuneSettings parse_finetune(const JobSpec& spec);

}  // namespace foretime::jobs
