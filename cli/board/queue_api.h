#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/board/queue_events.h"
#include "cli/board/trial_table.h"
#include "cli/jobs/changes.h"
#include "cli/jobs/queue_access.h"

namespace foretime::cli {

/// Selects the trials of a sweep and their order.
struct TrialQuery {
  std::string sort = "trial";  // trial, state, objective, step, seconds, finished, or a parameter's full name
  bool descending = false;
  std::string state{};   // only trials in this state; empty: any
  std::string search{};  // text in the id, the name, or a parameter's value
  int64_t from = 0, limit = 50;
};

/// Adds `history` and `history_source` to a job's JSON, from the files of its attempts in `runs` if they exist.
void add_history(nlohmann::json& json, const jobs::JobRecord& job, const std::filesystem::path& runs);

/// Returns the board's view of a queue. Records have the form of `foretime status --json`. Throws server::HttpError for
/// unknown ids, and the errors of Redis. Not thread-safe.
class QueueApi {
 public:
  /// Connects to the queue. With Start::to_read, `change` must not be called.
  explicit QueueApi(const QueueOptions& options, Start start = Start::to_read);
  explicit QueueApi(QueueAccess access);

  /// Returns statistics like `foretime queue --json`, the newest sweeps with their counts, and the jobs that run or
  /// come next.
  nlohmann::json queue();
  /// Returns a sweep with one page of its trials, each with the curve of its objective.
  nlohmann::json sweep(const std::string& id, const TrialQuery& query);
  /// Returns all trials that match `query` as CSV, regardless of its limit: trial, id, state, the objective by its
  /// name, best, step, seconds, finished_ms and the parameters.
  std::string trials_csv(const std::string& id, const TrialQuery& query);
  /// Returns agents like `foretime queue --json`, with `heard` (recently), `used` CPUs and GPUs, and the `running`
  /// jobs.
  nlohmann::json agents();
  /// Returns trials for plots, at most kPlotted evenly chosen ones: number, state, objective, parameters, end; the best
  /// objective so far over time; and the importance of each parameter.
  nlohmann::json overview(const std::string& id);
  /// Returns curves of the objective: those of the kBestCurves best trials and evenly chosen other ones, at most
  /// kCurves.
  nlohmann::json curves(const std::string& id);
  /// Returns depth and throughput of the queue over the last `minutes`, and the demands of the waiting jobs.
  nlohmann::json activity(int64_t minutes);
  /// Returns a whole job without its history, which `add_history` adds; sets `record` to its record in Redis.
  nlohmann::json job(const std::string& id, jobs::JobRecord& record);
  /// Returns the last lines of a job's log.
  nlohmann::json log(const std::string& id);
  /// Returns whether an id or its beginning is that of a sweep, and the whole id.
  std::pair<bool, std::string> resolve(const std::string& prefix);
  /// Performs cancel, pause, resume, retry or priority (cli/jobs/changes.h).
  Change change(const std::string& action, const std::string& id, int64_t priority);
  std::string name() const { return access_.name(); }

  static constexpr size_t kPlotted = 2000;
  static constexpr int64_t kMostRows = 500;

 private:
  struct CachedAnswer {
    uint64_t version = 0;
    std::chrono::steady_clock::time_point until{};  // valid until then, regardless of changes
    std::shared_ptr<const nlohmann::json> answer{};
  };
  /// Holds the order of trials, valid as long as none has changed.
  struct CachedOrder {
    bool known = false;
    uint64_t version = 0;
    TrialQuery query{};
    std::vector<uint32_t> places{};
  };
  struct CachedCounts {
    bool known = false;
    uint64_t version = 0;
    std::map<jobs::JobState, int64_t> jobs{};
    int64_t unreadable = 0;
  };
  struct CachedSweep {
    explicit CachedSweep(const std::string& sweep) : table(sweep) {}
    TrialTable table;
    uint64_t used = 0;
    CachedAnswer overview{}, curves{};
    CachedOrder order{};
    CachedCounts counted{};
  };
  /// Returns the sweep whose id begins with `prefix`. Throws server::HttpError if it is unknown.
  jobs::SweepRecord sweep_named(const std::string& prefix);
  const std::vector<Trial>& trials_of(const std::string& sweep);
  /// Returns the result of `make` for the sweep's trials. Calls `make` again only when they have changed and nine times
  /// its last duration has passed; until then returns the older result.
  template <class Make>
  nlohmann::json cached(const std::string& sweep, CachedAnswer CachedSweep::*what, const Make& make);
  /// Returns the counts of a sweep whose trials were just read; adds to `unreadable`.
  std::map<jobs::JobState, int64_t> counts_of(const std::string& sweep, int64_t& unreadable);
  /// Returns the indices of the trials that match `query`, in its order.
  const std::vector<uint32_t>& order_of(const std::string& sweep, const TrialQuery& query);

  static constexpr size_t kTables = 60;  // sweeps whose trials are in memory
  static constexpr size_t kCurves = 150, kBestCurves = 20;

  QueueAccess access_;
  QueueEvents events_;
  std::map<std::string, CachedSweep> tables_;
  uint64_t uses_ = 0;
};

}  // namespace foretime::cli
