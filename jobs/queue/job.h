#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "configs/settings.h"

/// A job and what becomes of it, as plain structs. docs/reference/jobs.md has the same as Redis keys and fields.
namespace foretime::jobs {

FORETIME_CHOICE(JobKind, train, evaluate, export_, finetune);

/// The states of a job. A submitted job ends in exactly one of the last four.
FORETIME_CHOICE(JobState, blocked,  // waits for other jobs to succeed
                waiting,            // may be claimed
                delayed,            // waits until a retry is due
                held,               // belongs to a paused sweep, and was set aside by a claim
                active,             // leased to an agent
                succeeded,          // has a result; `stopped` says whether early stopping ended it
                failed,             // will not work however often it is tried: settings, data
                cancelled,          // by a user, or because a job that it needed did not succeed
                dead                // failed max_attempts times
);

std::string to_string(JobKind kind);
std::string to_string(JobState state);
/// Both throw JobsError for any other word.
JobKind parse_job_kind(const std::string& text);
JobState parse_job_state(const std::string& text);
bool is_final(JobState state);

/// Swept settings: full key -> value as configs::apply_override takes it. Sorted, so equal ones give equal bytes.
using Parameters = std::map<std::string, std::string>;

/// The processors and GPUs that a job takes from an agent.
struct Resources {
  int64_t ranks = 1;       // the least number of ranks if most_ranks is set, else the number
  int64_t cpus = 1;        // CPUs for each rank
  int64_t gpus = 0;        // GPUs for each rank
  int64_t most_ranks = 0;  // each attempt takes as many of them as are free; 0: exactly `ranks`
  bool elastic() const { return most_ranks != 0; }
  int64_t total_cpus() const { return ranks * cpus; }
  int64_t total_gpus() const { return ranks * gpus; }
  bool operator==(const Resources&) const = default;
};

/// The largest of everything that is written to Redis or believed when read back, in bytes unless said otherwise.
struct Limits {
  static constexpr size_t kSettings = 256 << 10;
  static constexpr size_t kParameters = 16 << 10;
  static constexpr size_t kName = 200;
  static constexpr size_t kPath = 4096;
  static constexpr size_t kResult = 256 << 10;
  static constexpr size_t kError = 4 << 10;
  static constexpr size_t kTrouble = 512;
  static constexpr size_t kLogLine = 2 << 10;
  static constexpr int64_t kLogLines = 200;    // log lines kept for each job
  static constexpr size_t kDependencies = 64;  // jobs that one job may wait for
  static constexpr size_t kHistory = 8 << 10;  // packed, of a job that has not ended
  static constexpr size_t kEndedHistory =
      156;  // packed, of an ended job: one byte more takes Redis' next allocation size
  static constexpr size_t kRecord = 4 << 20;  // memory that the record of a job takes in Redis
  static constexpr int64_t kPriority = 4000;  // absolute value
  static constexpr int64_t kAttempts = 1000;  // most that a job may ask for
};

/// JobSpec::settings of a trial whose settings are those of its sweep (SweepSpec::settings), which are stored once for
/// all trials. No YAML begins with @.
inline constexpr const char* kSweepSettings = "@sweep";

/// A submitted job: its settings, which the agent checks against configs::Settings, or a command
/// (jobs/sweep/program_trial.h), which only agents run whose operator allows it.
struct JobSpec {
  std::string id{};  // see job_id
  JobKind kind = JobKind::train;
  std::string name{};   // a name that people read; printable, at most Limits::kName
  std::string sweep{};  // id of the sweep, or empty
  int64_t trial = -1;   // number in the sweep
  /// train: settings as YAML (configs::to_yaml), over which the agent lays `parameters`; or kSweepSettings, which a
  /// lease never has. evaluate: YAML {files: [pattern…], set: {key: value…}}. export: empty. finetune: see
  /// jobs/sweep/finetune_job.h.
  std::string settings{};
  Parameters parameters{};  // the swept settings of this job; empty while deferred
  bool deferred = false;    // bayes: whoever runs the job first decides its parameters
  std::string metric{};     // objective, as in trainer.metric
  bool maximize = true;
  /// Ids of jobs that must succeed first; evaluate and export act on the first one, and so does finetune, if any.
  std::vector<std::string> after{};
  Resources resources{};
  int64_t priority = 0;  // larger first
  int64_t max_attempts = 3;
  /// Key of the program that the job runs in place of foretime (jobs/sweep/program_trial.h), by which agents know
  /// whether they can; 1 to 16 hexadecimal digits. Empty: it runs foretime.
  std::string program{};
  bool operator==(const JobSpec&) const = default;
};

/// Returns 16 hexadecimal digits of the SHA-256 of everything in `spec` that shapes its result (kind, sweep, trial,
/// settings, parameters, after): the same job submitted twice has one id. Priority, name, resources and attempts do not
/// count.
std::string job_id(const JobSpec& spec);
/// Returns the first 16 hexadecimal digits of the SHA-256 of `text`.
std::string content_id(const std::string& text);

/// The right to run a job for a while. Everything that the holder writes carries it; an older one changes nothing.
struct Lease {
  std::string job{};
  std::string agent{};
  int64_t fence = 0;    // rises with every claim of the job
  std::string token{};  // chosen by the claiming agent; tells two leases of one fence apart after Redis lost a second
  int64_t attempt = 1;  // failures so far + 1
  std::string failed_on{};  // the agent of its first failure
  int64_t deadline_ms = 0;  // end of the lease on Redis' clock
  JobSpec spec{};
  int64_t ranks = 0;         // ranks of this attempt of an elastic job; 0: spec.resources.ranks
  std::string checkpoint{};  // newest that was published, relative to the run root; empty: none
  std::string history{};     // metrics of the earlier attempts, packed (history/history.h)
  /// Returns what this attempt takes of its agent.
  Resources resources() const {
    return {
        .ranks = ranks > 0 ? ranks : spec.resources.ranks, .cpus = spec.resources.cpus, .gpus = spec.resources.gpus};
  }
};

/// The ways in which an attempt ends.
FORETIME_CHOICE(Outcome,  //
                succeeded,
                stopped,    // by early stopping: counts as succeeded, the checkpoint is kept
                cancelled,  // by request, at a step boundary
                preempted,  // the agent drains, or somebody preempted the job: back to waiting, no attempt is used up
                error,      // may work next time: delayed with back-off, or dead after max_attempts
                failed      // will not work however often it is tried
);
std::string to_string(Outcome outcome);

/// JobResult::checkpoint if the checkpoint that was published before is gone.
inline constexpr const char* kNoCheckpoint = "-";

struct JobResult {
  Outcome outcome = Outcome::succeeded;
  std::map<std::string, double> metrics{};  // metrics of the final evaluation, else of the last one
  std::optional<double> objective{};        // value of the job's metric
  std::string checkpoint{};                 // relative to the run root; empty: as published, or kNoCheckpoint
  std::string error{};                      // reason of error, failed and, if known, preempted
  int64_t exit_code = 0;
  double seconds = 0;     // duration of this attempt
  std::string history{};  // thinned history of an ended job, packed; empty: unchanged
  /// preempted: by somebody whom this agent did not ask, or by the storage. Then the job waits with back-off, and is
  /// dead after too many of these in a row.
  bool unasked = false;
};

/// Returns whether an attempt was preempted by storage that failed (exit code 74).
bool ended_by_storage(const JobResult& result);

/// An agent's report about a running job.
struct JobReport {
  int64_t step = 0, total_steps = 0;
  double eta_seconds = -1;            // expected remaining seconds; below 0: unknown
  std::optional<double> loss{};       // the newest one; empty: the job has sent none
  int64_t iteration = 0;              // evaluations so far; the resource of early stopping
  std::optional<double> objective{};  // value of the job's metric at that evaluation
  std::map<std::string, double> metrics{};
  std::string checkpoint{};              // newly published; empty: none since the last report
  std::vector<std::string> log_lines{};  // new ones
  std::string history{};                 // metrics of all attempts, packed (history/history.h); empty: unchanged
};

/// The queue's instruction to the holder of a lease.
enum class Directive {
  proceed,
  stop,    // early stopping: checkpoint, then finish as stopped
  cancel,  // asked for: checkpoint at the step boundary, then finish as cancelled
  lost     // a newer lease exists: kill the job, write nothing
};

/// Everything that Redis holds about one job.
struct JobRecord {
  JobSpec spec{};
  JobState state = JobState::waiting;
  int64_t attempt = 0, failures = 0, fence = 0;
  int64_t lost = 0, preemptions = 0;  // leases, and preemptions unasked: in a row without progress in between
  int64_t attempt_ranks = 0;         // ranks of the newest attempt of an elastic job; 0: no attempt yet, or not elastic
  std::string agent{}, failed_on{};  // failed_on: the agent of the first failure that was its own
  int64_t submitted_ms = 0, claimed_ms = 0, finished_ms = 0, due_ms = 0, updated_ms = 0;
  int64_t step = 0, total_steps = 0;
  double eta_seconds = -1, seconds = 0;
  std::optional<double> loss{};  // the newest one; empty: none was measured, or the job has succeeded
  std::optional<double> objective{}, best_objective{};
  std::map<std::string, double> metrics{};
  std::string checkpoint{}, error{}, reason{};  // reason: why it was stopped, cancelled or delayed
  std::string history{};                        // packed (history/history.h): what all attempts measured
  bool stopped = false, cancel_requested = false;
  int64_t log_lines = 0;  // ever written; the ring holds the last Limits::kLogLines
  int64_t results = 0;    // results written: 0 or 1
  /// Milliseconds since the lease of an active job ran out, so that it waits for an agent to take it over; 0: it has
  /// not. Only QueueReader::job and QueueReader::jobs know it.
  int64_t overdue_ms = 0;
  /// The reason why the record cannot be read; empty: it was read. The other members are then the readable fields, or
  /// defaults.
  std::string unreadable{};
};

}  // namespace foretime::jobs
