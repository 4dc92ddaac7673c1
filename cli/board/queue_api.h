#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/jobs/queue_access.h"

namespace foretime::cli {

/// Which trials of a sweep are shown, in what order.
struct TrialQuery {
  std::string sort = "trial";  // trial, state, objective, step, seconds, finished, or a parameter's full name
  bool descending = false;
  std::string state{};   // of these alone; empty: of any
  std::string search{};  // that the id, the name, or a parameter's value has
  int64_t from = 0, limit = 50;
};

/// What the board shows of a queue. Records are written as `foretime status --json` writes them. Throws
/// server::HttpError for what is not there, and the errors of Redis. For one thread at a time.
class QueueApi {
 public:
  explicit QueueApi(const QueueOptions& options);

  /// Statistics as `foretime queue --json`, the newest sweeps with their counts, and the jobs that run or come next.
  nlohmann::json queue();
  /// A sweep with a page of its trials, each with the curve of its objective.
  nlohmann::json sweep(const std::string& id, const TrialQuery& query);
  /// All trials for plots, at most kPlotted evenly chosen ones: number, state, objective, parameters, end; and the best
  /// objective so far over time.
  nlohmann::json overview(const std::string& id);
  /// A job in full, with its history.
  nlohmann::json job(const std::string& id);
  nlohmann::json log(const std::string& id);
  std::string name() const { return access_.name(); }

  static constexpr size_t kPlotted = 2000;
  static constexpr int64_t kMostRows = 500;

 private:
  struct Trial;
  std::vector<Trial> trials_of(const std::vector<std::string>& ids);

  QueueAccess access_;
  const std::filesystem::path runs_;
};

}  // namespace foretime::cli
