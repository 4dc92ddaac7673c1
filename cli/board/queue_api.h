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

/// Which trials of a sweep are shown, in what order.
struct TrialQuery {
  std::string sort = "trial";  // trial, state, objective, step, seconds, finished, or a parameter's full name
  bool descending = false;
  std::string state{};   // of these alone; empty: of any
  std::string search{};  // that the id, the name, or a parameter's value has
  int64_t from = 0, limit = 50;
};

/// Adds its `history` and `history_source` to a job's JSON. Reads the files of its attempts in `runs`, if they are
/// there.
void add_history(nlohmann::json& json, const jobs::JobRecord& job, const std::filesystem::path& runs);

/// What the board shows of a queue. Records are written as `foretime status --json` writes them. Throws
/// server::HttpError for what is not there, and the errors of Redis. For one thread at a time.
class QueueApi {
 public:
  /// Start::to_read: `change` is not called.
  explicit QueueApi(const QueueOptions& options, Start start = Start::to_read);
  explicit QueueApi(QueueAccess access);

  /// Statistics as `foretime queue --json`, the newest sweeps with their counts, and the jobs that run or come next.
  nlohmann::json queue();
  /// A sweep with a page of its trials, each with the curve of its objective.
  nlohmann::json sweep(const std::string& id, const TrialQuery& query);
  /// The trials that `query` wants, whatever its limit, as CSV: trial, id, state, the objective by its name, best,
  /// step, seconds, finished_ms and the parameters.
  std::string trials_csv(const std::string& id, const TrialQuery& query);
  /// Agents as `foretime queue --json` has them, with `heard` (lately), `used` CPUs and GPUs, and the
  /// jobs `running` there.
  nlohmann::json agents();
  /// All trials for plots, at most kPlotted evenly chosen ones: number, state, objective, parameters, end; the best
  /// objective so far over time; and how important each parameter is.
  nlohmann::json overview(const std::string& id);
  /// Curves of the objective: the kBestCurves best trials', and evenly many of the others', kCurves or less.
  nlohmann::json curves(const std::string& id);
  /// Depth and throughput of the queue over the last `minutes`, and what the jobs that wait need.
  nlohmann::json activity(int64_t minutes);
  /// A job in full, but for its history, which `add_history` adds; `record` becomes what Redis has of it.
  nlohmann::json job(const std::string& id, jobs::JobRecord& record);
  nlohmann::json log(const std::string& id);
  /// Whether an id, or its first digits, is that of a sweep, and the whole id.
  std::pair<bool, std::string> resolve(const std::string& prefix);
  /// cancel, pause, resume, retry or priority (cli/jobs/changes.h).
  Change change(const std::string& action, const std::string& id, int64_t priority);
  std::string name() const { return access_.name(); }

  static constexpr size_t kPlotted = 2000;
  static constexpr int64_t kMostRows = 500;

 private:
  struct Remembered {
    uint64_t version = 0;
    std::chrono::steady_clock::time_point until{};  // it is good, whatever has changed
    std::shared_ptr<const nlohmann::json> answer{};
  };
  /// Places of trials, as long as none has changed.
  struct Order {
    bool known = false;
    uint64_t version = 0;
    TrialQuery query{};
    std::vector<uint32_t> places{};
  };
  struct Counted {
    bool known = false;
    uint64_t version = 0;
    std::map<jobs::JobState, int64_t> jobs{};
    int64_t unreadable = 0;
  };
  struct Kept {
    explicit Kept(const std::string& sweep) : table(sweep) {}
    TrialTable table;
    uint64_t used = 0;
    Remembered overview{}, curves{};
    Order order{};
    Counted counted{};
  };
  const std::vector<Trial>& trials_of(const std::string& sweep);
  /// What `make` gives of the trials: anew where they have changed, and so seldom that it takes a tenth of the time.
  template <class Make>
  nlohmann::json remembered(const std::string& sweep, Remembered Kept::*what, const Make& make);
  /// Of a sweep whose trials were read just now; the latter is added to.
  std::map<jobs::JobState, int64_t> counts_of(const std::string& sweep, int64_t& unreadable);
  const std::vector<uint32_t>& order_of(const std::string& sweep, const TrialQuery& query);

  static constexpr size_t kTables = 60;  // sweeps whose trials are kept
  static constexpr size_t kCurves = 150, kBestCurves = 20;

  QueueAccess access_;
  QueueEvents events_;
  std::map<std::string, Kept> tables_;
  uint64_t uses_ = 0;
};

}  // namespace foretime::cli
