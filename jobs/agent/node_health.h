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
#include "base/no_copy.h"
#include "jobs/agent/allowed_roots.h"
#include "jobs/agent/world.h"
#include "jobs/queue/job.h"

namespace foretime::jobs {

/// Returns why a machine cannot run any job: no file can be written and synced in the run root; or a data root, or the
/// folder of programs, is missing, cannot be listed or is empty (a missing mount). Returns "" if nothing is wrong.
std::string find_trouble(Files& files, const AllowedRoots& roots);

/// Decides whether jobs fail because of the agent's machine: a broken machine must not drain the queue.
///
/// The roots are checked (find_trouble) before a job starts and again after a failure, on a background thread, since
/// storage may hang: no answer within kHangs counts as trouble. During trouble the agent claims nothing, gives back its
/// jobs, and checks again after kFirstPause to kLongestPause. If the roots are fine and yet `most_failures` different
/// jobs in a row end within kSoon or by a storage failure, the agent also pauses and then tries a single job. The pause
/// ends when that job succeeds or runs for longer than kSoon. A job that failed on another agent too says nothing about
/// this machine; if half of the failures are of such jobs, the pause ends.
class NodeHealth : NoCopy {
 public:
  static constexpr double kFresh = 5;   // age in seconds up to which a check counts for the start of a job
  static constexpr double kHangs = 30;  // seconds without an answer of the storage that count as trouble
  static constexpr double kSoon = 10;   // seconds within which a failure may be the machine's fault
  static constexpr double kFirstPause = 5, kLongestPause = 300;  // seconds
  static constexpr size_t kBlamedJobs = 16;                      // most jobs of blamed_jobs()

  /// Starts the thread. `who` begins the lines of the log. `wake` is called, from any thread, when a check has ended.
  NodeHealth(std::string who, const AllowedRoots& roots, int64_t most_failures, std::function<void()> wake,
             World& world, spdlog::logger& log);
  ~NodeHealth();  // does not wait for hanging storage

  /// Returns whether a job may be claimed now: not before the first check has ended, and in a pause one trial job.
  bool may_claim(double now);
  void claimed(const std::string& job, double now);  // records a claim, which in a pause is that of the trial job

  enum class Answer { wait, well, trouble };
  /// Returns the result of a check that began at `since` or later. If there is none, requests one and returns `wait`,
  /// or `trouble` if a check has been running for kHangs.
  Answer checked_since(double since, double now);

  /// Records the end of an attempt.
  void ended(const Lease& lease, const JobResult& result, double now);
  /// Records that the machine could not start an attempt and gives the job back.
  void could_not_start(const std::string& job, const std::string& why, double now);

  /// Returns the jobs whose failures have caused the present pause, at most kBlamedJobs; none without such a pause.
  std::vector<std::string> blamed_jobs() const;
  /// Records how often a blamed job has failed so far on all machines, which may show that it failed elsewhere too.
  void update_failures(const std::string& job, int64_t failures);

  /// Returns the time at which a running check counts as hanging; kNever if no check runs.
  double next_turn() const { return check_requested_at_ < 0 ? kNever : check_requested_at_ + kHangs; }
  /// Returns whether the very first check is still running.
  bool in_first_check() const { return check_requested_at_ >= 0 && !checked_ && trouble_.empty(); }

  /// Returns why the agent claims nothing, at most Limits::kTrouble bytes; empty if the machine is fine.
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
  /// Starts or ends a pause if the result of a check differs from that of the last one.
  void handle_check(const std::string& trouble, double now);
  void pause(const std::string& why, double now);  // starts a pause, twice as long as the last one
  /// Starts a pause if failed_ or failed_starts_, which already count this failure, have reached the limit. During a
  /// pause, only a failure of the trial job starts a new one. Changes nothing without a limit (most_failures_ 0).
  void pause_at_limit(const std::string& job, const std::string& why, double now);
  /// Records that a job failed on another machine too; ends the pause if at least half of the failed jobs did.
  void exonerate(const std::string& job);
  void forget_failures();  // ends a pause and forgets all failures

  std::string who_;
  AllowedRoots roots_;
  int64_t most_failures_;
  World& world_;
  spdlog::logger& log_;

  std::string trouble_;       // reason to claim nothing; empty: none
  std::string last_found_;    // result of the last check of the roots; empty: none
  double pause_ = 0;          // length of the present pause in seconds; 0: no trouble
  double next_try_ = 0;       // no claim before this time
  bool checked_ = false;      // a check has ended
  bool may_try_job_ = false;  // a single job may be claimed
  std::string trial_job_;     // job claimed during a pause
  double trial_started_at_ = 0;
  // Jobs that failed within kSoon since the last good one. Value: failures on all machines then, or kExonerated.
  std::map<std::string, int64_t> failed_;
  int64_t failed_starts_ = 0;       // number of attempts that could not start since forget_failures()
  double check_requested_at_ = -1;  // start of an unanswered check; below 0: none

  std::shared_ptr<Checker> checker_;
  std::unique_ptr<Background> background_;
};

}  // namespace foretime::jobs
