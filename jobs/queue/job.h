#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "configs/settings.h"

/// Jobs, their leases, reports and results, as plain structs. docs/reference/jobs.md lists their Redis keys and fields.
namespace foretime::jobs {

FORETIME_CHOICE(JobKind, train, evaluate, export_, finetune);

/// The states of a job. A submitted job ends in exactly one of the last four.
FORETIME_CHOICE(JobState, blocked,  // waits for other jobs to succeed
                waiting,            // may be claimed
                delayed,            // waits until a retry is due
                held,               // belongs to a paused sweep; a claim has passed over it
                active,             // leased to an agent
                succeeded,          // has a result; `stopped` says whether early stopping ended it
                failed,             // would fail again: wrong settings or data
                cancelled,          // by a user, or because a job that it needed did not succeed
                dead                // ended in errors max_attempts times, or lost too many leases in a row
);

std::string to_string(JobKind kind);
std::string to_string(JobState state);
JobKind parse_job_kind(const std::string& text);    // throws JobsError for an unknown word
JobState parse_job_state(const std::string& text);  // throws JobsError for an unknown word
/// Returns whether a job in this state has ended: succeeded, failed, cancelled or dead.
bool is_final(JobState state);

/// Swept settings: full key -> value as configs::apply_override takes it.
using Parameters = std::map<std::string, std::string>;

/// The processors and GPUs that a job takes from an agent.
struct Resources {
  int64_t ranks = 1;       // number of ranks; the least number if most_ranks is set
  int64_t cpus = 1;        // CPUs for each rank
  int64_t gpus = 0;        // GPUs for each rank
  int64_t most_ranks = 0;  // largest number of ranks; each attempt takes as many as fit; 0: exactly `ranks`
  bool elastic() const { return most_ranks != 0; }
  int64_t total_cpus() const { return ranks * cpus; }
  int64_t total_gpus() const { return ranks * gpus; }
  bool operator==(const Resources&) const = default;
};

/// The largest sizes of what is written to Redis or accepted when read back, in bytes unless stated otherwise.
struct Limits {
  static constexpr size_t kSettings = 256 << 10;
  static constexpr size_t kParameters = 16 << 10;
  static constexpr size_t kName = 200;
  static constexpr size_t kPath = 4096;
  static constexpr size_t kResult = 256 << 10;
  static constexpr size_t kError = 4 << 10;
  static constexpr size_t kTrouble = 512;
  static constexpr size_t kLogLine = 2 << 10;
  static constexpr int64_t kLogLines = 200;     // log lines kept for each job
  static constexpr size_t kDependencies = 64;   // jobs that one job may wait for
  static constexpr size_t kHistory = 8 << 10;   // packed history of a job that has not ended
  static constexpr size_t kEndedHistory = 156;  // packed history of an ended job; fits Redis' allocation of 160 bytes
  static constexpr size_t kRecord = 4 << 20;    // memory that the record of a job takes in Redis
  static constexpr int64_t kPriority = 4000;    // absolute value of a priority
  static constexpr int64_t kAttempts = 1000;    // largest JobSpec::max_attempts
};

/// The value of JobSpec::settings that means SweepSpec::settings of the job's sweep. No YAML begins with @.
inline constexpr const char* kSweepSettings = "@sweep";

/// A submitted job: its settings, which the agent checks against configs::Settings, or a command
/// (jobs/sweep/program_trial.h), which only agents run whose operator allows it.
struct JobSpec {
  std::string id{};  // see job_id
  JobKind kind = JobKind::train;
  std::string name{};   // name for people; printable, at most Limits::kName bytes
  std::string sweep{};  // id of the sweep; empty: none
  int64_t trial = -1;   // number of the trial in the sweep, from 0; -1: none
  /// train: settings as YAML (configs::to_yaml), which `parameters` override; kSweepSettings; or a program
  /// (jobs/sweep/program_trial.h). evaluate: YAML {files: [pattern…], set: {key: value…}}. export: empty. finetune: see
  /// jobs/sweep/finetune_job.h. A lease has the sweep's settings in place of kSweepSettings.
  std::string settings{};
  Parameters parameters{};  // the swept settings of this job; empty while deferred
  bool deferred = false;    // bayes: the agent that runs the job first decides its parameters
  std::string metric{};     // name of the metric that is the objective, as in trainer.metric
  bool maximize = true;     // a larger objective is better
  /// Ids of jobs that must succeed first. evaluate, export and finetune read the result of the first one.
  std::vector<std::string> after{};
  Resources resources{};
  int64_t priority = 0;      // jobs with a larger one are claimed first
  int64_t max_attempts = 3;  // attempts that may end in an error before the job is dead
  /// Key of the program that the job runs in place of foretime (program_key), by which agents know whether they have
  /// the program; 1 to 16 lower-case hexadecimal digits. Empty: the job runs foretime.
  std::string program{};
  bool operator==(const JobSpec&) const = default;
};

/// Returns the id of a job: 16 hexadecimal digits of the SHA-256 of kind, sweep, trial, settings, parameters and after;
/// other members, such as name and priority, do not count. Throws nlohmann::json::exception for text that is not UTF-8.
std::string job_id(const JobSpec& spec);
/// Returns the first 16 hexadecimal digits of the SHA-256 of `text`.
std::string content_id(const std::string& text);

/// The right of an agent to run a job for a while. A call with an older lease changes nothing.
struct Lease {
  std::string job{};        // id of the job
  std::string agent{};      // name of the holder
  int64_t fence = 0;        // number that rises with every claim of the job
  std::string token{};      // random text of the claim; differs if Redis lost writes and gave a fence out twice
  int64_t attempt = 1;      // number of failures so far + 1
  std::string failed_on{};  // name of the agent on which the job failed first; empty: none
  int64_t deadline_ms = 0;  // end of the lease on Redis' clock, milliseconds since 1970
  JobSpec spec{};
  int64_t ranks = 0;         // ranks of this attempt of an elastic job; 0: spec.resources.ranks
  std::string checkpoint{};  // newest published checkpoint, relative to the run root; empty: none
  std::string history{};     // metrics of the earlier attempts, packed (history/history.h)
  /// Returns the resources of this attempt; never elastic.
  Resources resources() const {
    return {
        .ranks = ranks > 0 ? ranks : spec.resources.ranks, .cpus = spec.resources.cpus, .gpus = spec.resources.gpus};
  }
};

/// The ways in which an attempt ends.
FORETIME_CHOICE(Outcome,  //
                succeeded,
                stopped,    // ended by early stopping: the job has succeeded
                cancelled,  // ended by request
                preempted,  // the agent drains, or somebody preempted the job: it waits again and no attempt is used up
                error,      // may work next time: the job is delayed, or dead after max_attempts
                failed      // would fail again: the job has failed
);
std::string to_string(Outcome outcome);

/// The value of JobResult::checkpoint if the checkpoint that was published before is gone.
inline constexpr const char* kNoCheckpoint = "-";

/// The result of an attempt, which the agent writes when the attempt has ended.
struct JobResult {
  Outcome outcome = Outcome::succeeded;
  std::map<std::string, double> metrics{};  // metrics of the final evaluation, or else of the last one
  std::optional<double> objective{};        // value of the job's metric; empty: none
  std::string checkpoint{};  // relative to the run root; empty: the published one stays; kNoCheckpoint: it is gone
  std::string error{};       // reason of error, failed and, if known, preempted
  int64_t exit_code = 0;     // exit code of the command; 128 + signal after a signal; -1: it was not started
  double seconds = 0;        // duration of this attempt
  std::string history{};     // thinned history of an ended job, packed; empty: unchanged
  /// Set for preempted if this agent did not ask for it, or if the storage failed. The job then waits with back-off,
  /// and is dead after QueueSettings::most_preemptions of these in a row.
  bool unasked = false;
};

/// Returns whether an attempt was preempted because its storage failed (`unasked` with exit code 74).
bool ended_by_storage(const JobResult& result);

/// An agent's report about a running job.
struct JobReport {
  int64_t step = 0, total_steps = 0;  // newest step; steps in all, 0: not known
  double eta_seconds = -1;            // expected remaining seconds; below 0: unknown
  std::optional<double> loss{};       // newest training loss; empty: the job has sent none
  int64_t iteration = 0;              // number of evaluations so far, with which the rungs of early stopping compare
  std::optional<double> objective{};  // value of the job's metric at that evaluation; empty: no new evaluation
  std::map<std::string, double> metrics{};  // metrics of that evaluation
  std::string checkpoint{};              // newly published, relative to the run root; empty: none since the last report
  std::vector<std::string> log_lines{};  // lines since the last report
  std::string history{};                 // metrics of all attempts, packed (history/history.h); empty: unchanged
};

/// The queue's instruction to the holder of a lease.
enum class Directive {
  proceed,
  stop,    // early stopping: write a checkpoint, then finish as stopped
  cancel,  // somebody cancelled the job: write a checkpoint, then finish as cancelled
  lost     // the lease is no longer valid: kill the job and write nothing
};

/// Everything that Redis holds about one job.
struct JobRecord {
  JobSpec spec{};
  JobState state = JobState::waiting;
  int64_t attempt = 0;               // failures before the newest claim + 1; 0: never claimed
  int64_t failures = 0;              // attempts that ended in an error
  int64_t fence = 0;                 // fence of the newest lease; 0: never claimed
  int64_t lost = 0;                  // leases lost in a row without progress in between
  int64_t preemptions = 0;           // preemptions in a row that nobody asked for, without progress in between
  int64_t attempt_ranks = 0;         // ranks of the newest attempt of an elastic job; 0: no attempt yet, or not elastic
  std::string agent{}, failed_on{};  // agents of the newest attempt and of the first one that ended in an error
  /// Times in milliseconds since 1970 on Redis' clock; 0: never. `due_ms` is the time of a delayed job's retry.
  int64_t submitted_ms = 0, claimed_ms = 0, finished_ms = 0, due_ms = 0, updated_ms = 0;
  int64_t step = 0, total_steps = 0;     // newest step; steps in all, 0: not known
  double eta_seconds = -1, seconds = 0;  // expected remaining seconds, below 0: unknown; seconds of the last attempt
  std::optional<double> loss{};          // newest training loss; empty: none was measured, or the job has succeeded
  std::optional<double> objective{}, best_objective{};  // newest and best value of the job's metric; empty: none
  std::map<std::string, double> metrics{};
  std::string checkpoint{};  // newest published one, relative to the run root; empty: none
  std::string error{};       // message of the last failed attempt
  std::string reason{};      // cause of a stop, cancellation or delay
  std::string history{};     // metrics of all attempts, packed (history/history.h)
  bool stopped = false;      // succeeded by early stopping
  bool cancel_requested = false;
  int64_t log_lines = 0;  // lines of the log ever written; Redis keeps the last Limits::kLogLines
  int64_t results = 0;    // number of results written: 0 or 1
  /// Milliseconds since the lease of an active job ran out, after which another agent may take the job over; 0: below
  /// two seconds. Only QueueReader::job and QueueReader::jobs set it.
  int64_t overdue_ms = 0;
  /// The reason why the record cannot be read; empty: it was read. Other members have the readable fields, or defaults.
  std::string unreadable{};
};

}  // namespace foretime::jobs
