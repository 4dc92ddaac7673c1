#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace foretime::jobs {

/// Returns the folder from which Python's `import wandb` takes Foretime's module (python/foretime/compat):
/// that of the installation or source tree of the executable `program`; empty without any.
std::filesystem::path compat_folder(const std::filesystem::path& program);

/// Knows the folder of `foretime agent --programs` and which programs of jobs are missing there. A job with a missing
/// program is given back and left to other agents until the program appears.
class ProgramFolder {
 public:
  /// Takes the folder; empty if the agent runs no programs of jobs.
  explicit ProgramFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}
  const std::filesystem::path& path() const { return folder_; }
  /// Returns whether jobs with this JobSpec::program can run here, as far as is known.
  bool runs(const std::string& key) const { return key.empty() || (!folder_.empty() && !missing_.contains(key)); }

  /// Sets the seconds between two checks for missing programs.
  static constexpr double kCheckInterval = 5;

  /// Records that `program` (an absolute path) is not a file. `key` is JobSpec::program. Returns whether this is new.
  bool note_missing(const std::string& key, const std::filesystem::path& program);
  /// Returns the keys of the programs that are still missing at `now` (World::steady_seconds), for ClaimRequest.
  std::vector<std::string> missing(double now);

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::filesystem::path> missing_;  // key: JobSpec::program
  double next_check_ = 0;
};

}  // namespace foretime::jobs
