#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace foretime::jobs {

/// Returns the folder python/foretime/compat, with the modules that replace wandb, mlflow and optuna, of the
/// installation or source tree to which the executable `program` belongs; empty if there is none.
std::filesystem::path compat_folder(const std::filesystem::path& program);

/// Knows the folder of `foretime agent --programs` and which programs of jobs are missing there. A job with a missing
/// program is given back and left to other agents until the program appears.
class ProgramFolder {
 public:
  /// `folder` is empty if the agent runs no programs of jobs.
  explicit ProgramFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}
  const std::filesystem::path& path() const { return folder_; }
  /// Returns whether jobs with this JobSpec::program may run here: always for "" (foretime), else if there is a folder
  /// and no call of note_missing() has named the program, or its file has appeared since (missing()).
  bool runs(const std::string& key) const { return key.empty() || (!folder_.empty() && !missing_.contains(key)); }

  static constexpr double kCheckInterval = 5;  // seconds between two checks whether missing programs exist

  /// Records that `program`, an absolute path, is no file. `key` is JobSpec::program. Returns whether `key` is new.
  bool note_missing(const std::string& key, const std::filesystem::path& program);
  /// Returns the keys of the missing programs, for ClaimRequest. Drops those whose files exist now, at most once per
  /// kCheckInterval. `now` is a time of World::steady_seconds.
  std::vector<std::string> missing(double now);

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::filesystem::path> missing_;  // key: JobSpec::program
  double next_check_ = 0;
};

}  // namespace foretime::jobs
