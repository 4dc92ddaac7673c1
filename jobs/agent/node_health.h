#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "base/files.h"
#include "jobs/agent/allowed_roots.h"
#include "jobs/agent/world.h"
#include "jobs/queue/job.h"

namespace foretime::jobs {

/// Returns why a machine cannot run any job: no file can be written and synced in the run root; or a data root, or the
/// folder of programs, is missing, cannot be listed or is empty (a missing mount). Returns an empty text if nothing is
/// wrong.
std::string find_trouble(Files& files, const AllowedRoots& roots);

/// Decides whether jobs fail because of the agent's machine: a broken machine must not drain the queue.
///
/// The roots are checked (find_trouble) before a job starts and again after a failure, on a background thread, since
/// storage may hang: no answer within kHangs counts as trouble. During trouble the agent claims nothing, gives back its
/// jobs, and checks again after kFirstPause to kLongestPause. If the roots are fine and yet `most_failures` different
/// jobs in a row end within kSoon or by a storage failure, the agent also pauses and then tries a single job. The pause
/// ends when that job succeeds or runs for longer than kSoon. A job that failed on another agent too says nothing about
/// this machine; if half of the failures are of such jobs, the pause ends.
class NodeHealth {
 public:
  static constexpr double kFresh = 5, kHangs = 30, kSoon = 10;   // seconds
  static constexpr double kFirstPause = 5, kLongestPause = 300;  // seconds
  static constexpr size_t kBlamedJobs = 16;

  /// Starts the thread. `wake` is called, from any thread, when a check has ended.
  NodeHealth(std::string who, const AllowedRoots& roots, int64_t most_failures, std::function<void()> wake,
             World& world, spdlog::logger& log);
  ~NodeHealth();  // does not wait for hanging storage
  NodeHealth(const NodeHealth&) = delete;
  NodeHealth& operator=(const NodeHealth&) = delete;

  /// Returns whether another job may be claimed now.
  bool may_claim(double now);
  /// Records that a job was claimed.
  void claimed(const std::string& job, double now);

  enum class Answer { wait, well, trouble };
  /// Returns the result of a check that began at `since` or later; requests a check and returns `wait` if there was
  /// none.
  Answer checked_since(double since, double now);

  /// Records the end of an attempt.
  void ended(const Lease& lease, const JobResult& result, double now);
  /// Records that the machine could not start an attempt and gives the job back.
  void could_not_start(const std::string& job, const std::string& why, double now);

  /// Returns the jobs that the machine is blamed for, at most kBlamedJobs, while they keep it from claiming.
  std::vector<std::string> blamed_jobs() const;
  /// Records the number of failures of a blamed job so far, on all machines.
  void update_failures(const std::string& job, int64_t failures);

  /// Returns when the state changes although no check ends.
  double next_turn() const { return check_requested_at_ < 0 ? kNever : check_requested_at_ + kHangs; }
  /// Returns whether the very first check is still running.
  bool in_first_check() const { return check_requested_at_ >= 0 && !checked_ && trouble_.empty(); }

  /// Returns why nothing is claimed, at most Limits::kTrouble bytes; empty if the machine is fine.
  const std::string& trouble() const { return trouble_; }

 private:
  struct Check {
    double began = -1e300;  // earlier than any time
    std::string trouble;
  };
  /// Holds all data of the background thread, which may outlive the agent if storage hangs.
  struct Checker {
    /// Checks the roots if requested. Returns the seconds until the next call.
    double step();
    AllowedRoots roots;
    Files& files;  // file interface of the thread that made this object
    World& world;
    std::mutex mutex{};            // guards the members below
    std::function<void()> wake{};  // empty: the owner is gone
    bool wanted = false;
    Check last{};
  };
  /// Starts or ends a pause according to the result of a check.
  void handle_check(const std::string& trouble, double now);
  void pause(const std::string& why, double now);
  /// Counts a failed or unstarted job, and starts a pause at the limit.
  void count_failure(const std::string& job, const std::string& why, double now);
  /// Stops blaming the machine for a job that failed on another one too; ends the pause if half of the jobs did.
  void exonerate(const std::string& job);
  void forget_failures();

  std::string who_;
  AllowedRoots roots_;
  int64_t most_failures_;
  World& world_;
  spdlog::logger& log_;

  std::string trouble_, last_found_;  // last_found_: result of the last check
  double pause_ = 0;                  // seconds; 0: no trouble
  double next_try_ = 0;               // no claim before this time
  bool checked_ = false;              // a check has ended
  bool may_try_job_ = false;          // a single job may be claimed
  std::string trial_job_;             // job claimed during a pause
  double trial_started_at_ = 0;
  // Jobs that failed soon since the last good one, with their failures at that time; kExonerated: the job failed
  // elsewhere too.
  std::map<std::string, int64_t> failed_;
  int64_t failed_starts_ = 0;       // attempts that did not start since the last one that did
  double check_requested_at_ = -1;  // start of an unanswered check; below 0: none

  std::shared_ptr<Checker> checker_;
  std::unique_ptr<Background> background_;
};

}  // namespace foretime::jobs
