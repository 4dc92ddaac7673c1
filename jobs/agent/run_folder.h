#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

/// What a training has left in its run directory, as an agent sees it.
namespace foretime::jobs {

/// The last line of metrics.jsonl of the kind `final`. A metric that is no number is left out. NaN stands for one that
/// is not finite.
struct FinalMetrics {
  int64_t step = 0;
  std::map<std::string, double> metrics{};
};
/// Returns nothing where the run has not come to its end. `of_program`: every number but the step is a metric; else
/// those named SET/METRIC are. Throws FileError.
std::optional<FinalMetrics> read_final_metrics(const std::filesystem::path& run, bool of_program);

/// What is wrong with a checkpoint's folder, as far as its manifest and the files' sizes tell; empty: nothing. Throws
/// StorageError.
std::string checkpoint_damage(const std::filesystem::path& folder);

/// The newest checkpoint in a folder of checkpoints that checkpoint_damage() finds nothing wrong with; empty where
/// there is none. Throws FileError.
std::filesystem::path newest_whole_checkpoint(const std::filesystem::path& checkpoints);

/// Gives a run directory that has no checkpoint those that another run may lose: `checkpoint` of that run, under its
/// name, and the best one, where it is another one and whole, with what says that it is the best; the description of
/// the data, too, where there is none. Each is whole or not there, also after a loss of power. Files get a second name
/// where the file system has such, and are copied else. False where the checkpoint is damaged or goes meanwhile. Throws
/// FileError where a copy cannot be written, StorageError where anything cannot be read.
bool keep_checkpoints(const std::filesystem::path& checkpoint, const std::filesystem::path& run);

}  // namespace foretime::jobs
