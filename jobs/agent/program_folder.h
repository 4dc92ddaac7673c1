#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace foretime::jobs {

/// The folder of `foretime agent --programs`, and which programs of jobs it lacks. A job of such a program is given
/// back, and is left to other agents until the program is there.
class ProgramFolder {
 public:
  /// `folder`: empty where the agent runs no programs of jobs.
  explicit ProgramFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}
  const std::filesystem::path& path() const { return folder_; }
  /// Whether jobs with this JobSpec::program can run here, as far as is known.
  bool runs(const std::string& key) const { return key.empty() || (!folder_.empty() && !missing_.contains(key)); }

  /// Seconds between two looks for what was missing.
  static constexpr double kLookInterval = 5;

  /// Notes that `program` (its whole path) is no file. `key`: JobSpec::program. Returns whether that is news.
  bool note_missing(const std::string& key, const std::filesystem::path& program);
  /// Keys of the programs that are still missing at `now` (World::steady_seconds), for ClaimRequest.
  std::vector<std::string> missing(double now);

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::filesystem::path> missing_;  // by key
  double next_look_ = 0;
};

}  // namespace foretime::jobs
