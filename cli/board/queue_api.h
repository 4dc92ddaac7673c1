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
  std::string state{};           // only trials in this state; empty: in any state
  std::string search{};          // only trials with this text in id, name or a value; empty: all
  int64_t from = 0, limit = 50;  // first place in the order, and number of trials from there
};

/// Sets `history` and `history_source` of a job's JSON (history_of). If the history is damaged, `history` becomes {}
/// and `history_source` the error's message.
void add_history(nlohmann::json& json, const jobs::JobRecord& job, const std::filesystem::path& runs);

/// Returns the board's view of a queue. Records have the form of `foretime status --json`; an id may be the beginning
/// of one. Throws jobs::JobUnknown or server::HttpError for unknown ids, and the errors of Redis. Not thread-safe.
class QueueApi {
 public:
  /// Connects to the queue. With Start::to_read, `change` must not be called.
  explicit QueueApi(const QueueOptions& options, Start start = Start::to_read);
  explicit QueueApi(QueueAccess access);  // uses an open connection

  /// Returns statistics like `foretime queue --json`, the 50 newest sweeps with their counts, 50 jobs (active ones
  /// first, then delayed, waiting and ended ones), and warnings.
  nlohmann::json queue();
  /// Returns a sweep, the number of matching trials, and a page of at most kMostRows of them, each with its curve.
  nlohmann::json sweep(const std::string& id, const TrialQuery& query);
  /// Returns all trials that match `query` as CSV, whatever its from and limit: trial, id, state, the objective under
  /// its name, best, step, seconds, finished_ms and a column for each parameter.
  std::string trials_csv(const std::string& id, const TrialQuery& query);
  /// Returns agents like `foretime queue --json`, with `heard` (is_heard), `used` CPUs and GPUs, and `running` jobs.
  nlohmann::json agents();
  /// Returns trials for plots, at most kPlotted evenly chosen ones: number, state, objective, parameters, end. Adds the
  /// best objective so far over time, and the importance of each parameter.
  nlohmann::json overview(const std::string& id);
  /// Returns curves of the objective: those of the kBestCurves best trials, and of at most kCurves evenly chosen ones.
  /// Leaves out trials without an objective or a readable history.
  nlohmann::json curves(const std::string& id);
  /// Returns depth and throughput of the queue over the last `minutes` (activity_of), and demands of waiting jobs.
  nlohmann::json activity(int64_t minutes);
  /// Returns a whole job without its history, which `add_history` adds. Sets `record` to the job's record in Redis.
  nlohmann::json job(const std::string& id, jobs::JobRecord& record);
  /// Returns {"total": number of lines ever written, "lines": the last ones, which Redis keeps} of a job's log.
  nlohmann::json log(const std::string& id);
  /// Returns {whether it is a sweep, the whole id} for an id of a sweep or job, or its beginning. Throws JobUnknown if
  /// the beginning fits none, JobRefused if it fits several.
  std::pair<bool, std::string> resolve(const std::string& prefix);
  /// Performs cancel, pause, resume, retry or priority (cli/jobs/changes.h). Throws HttpError for another action.
  Change change(const std::string& action, const std::string& id, int64_t priority);
  std::string name() const { return access_.name(); }

  static constexpr size_t kPlotted = 2000;   // largest number of trials in a plot
  static constexpr int64_t kMostRows = 500;  // largest number of trials on a page

 private:
  struct CachedAnswer {
    uint64_t version = 0;
    std::chrono::steady_clock::time_point until{};  // end of the time for which it is returned, changed trials or not
    std::shared_ptr<const nlohmann::json> answer{};
  };
  /// Holds the order of trials for a query, valid for one version of the table.
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
    uint64_t used = 0;  // uses_ when the sweep was last asked for
    CachedAnswer overview{}, curves{};
    CachedOrder order{};
    CachedCounts counted{};
  };
  /// Returns the sweep whose id begins with `prefix`. Throws server::HttpError if it is unknown.
  jobs::SweepRecord sweep_named(const std::string& prefix);
  /// Reads what has changed, and returns all trials of a sweep; valid until the next call. The id must be whole.
  const std::vector<Trial>& trials_of(const std::string& sweep);
  /// Returns the result of `make` for the sweep's trials. Calls `make` again only after the trials have changed and
  /// nine times its last duration has passed; until then returns the older result.
  template <class Make>
  nlohmann::json cached(const std::string& sweep, CachedAnswer CachedSweep::*what, const Make& make);
  /// Returns how many trials are in each state, after trials_of was called. Adds damaged ones to `unreadable`.
  std::map<jobs::JobState, int64_t> counts_of(const std::string& sweep, int64_t& unreadable);
  /// Returns the indices of the trials that match `query`, in the order that it asks for, after trials_of was called.
  /// Trials without a value come last. Ignores from and limit. Valid until the next call.
  const std::vector<uint32_t>& order_of(const std::string& sweep, const TrialQuery& query);

  static constexpr size_t kTables = 60;  // number of sweeps whose trials are kept in memory
  static constexpr size_t kCurves = 150, kBestCurves = 20;

  QueueAccess access_;
  QueueEvents events_;
  std::map<std::string, CachedSweep> tables_;
  uint64_t uses_ = 0;
};

}  // namespace foretime::cli
