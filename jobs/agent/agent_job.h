#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <poll.h>
#include <spdlog/logger.h>

#include "history/history.h"
#include "jobs/agent/agent_command.h"
#include "jobs/agent/agent_options.h"
#include "jobs/agent/artifact_uploader.h"
#include "jobs/agent/attempt_end.h"
#include "jobs/agent/file_work.h"
#include "jobs/agent/job_log.h"
#include "jobs/agent/world.h"

namespace foretime::jobs {

/// Lists why a job is asked to end; a larger value overrides a smaller one.
enum class StopReason { none, drain, early_stopping, cancel };
/// Returns the outcome of a job that ended after a request with this reason; preempted for none.
Outcome outcome_of(StopReason reason);

/// Runs one attempt: holds its process, socket, log and reports. It never calls the queue: the agent's loop calls
/// `tick`, forwards reports and the result to the queue, and passes on the queue's directives. All file work happens on
/// a separate thread (FileWork), so that no other job waits for it.
class AgentJob {
 public:
  /// Takes over a claimed job. `uploader` is null without an artifact store. `wake` is called, from any thread, when
  /// file work has ended and tick() or start() must be called.
  AgentJob(Lease lease, JobSlots slots, const AgentOptions& options, ArtifactUploader* uploader,
           std::function<void()> wake, World& world, spdlog::logger& log);

  /// Starts the command, without waiting: must be called again while is_starting(). Throws RedisUnavailable and
  /// RedisRefused. A failure of the machine (StorageError, NodeError) gives the job back and sets could_not_start(), a
  /// missing program gives it back, and any other failure ends it as failed or as an error.
  void start(JobQueue& queue, const Proposer& proposer);
  bool is_starting() const { return state_ == State::starting; }
  /// Returns whether the job's log is written and its artifacts are stored, or the wait for them has taken too long.
  bool stored() const;
  /// Adds the descriptors that become readable when tick() has something to do.
  void add_descriptors(std::vector<pollfd>& descriptors) const;
  /// Reads output and messages, sends SIGTERM or SIGKILL if a request to stop had no effect in time, kills a job
  /// without progress, and handles the end of the command.
  void tick(double now);
  /// Returns the time of the next tick() that is due although no descriptor is ready; kNever if there is none.
  double next_timer() const;
  /// Returns the time at which the queue must be called for this job; 0: at once; kNever: no call is needed.
  double next_call() const;
  /// Returns whether the attempt has no process any more, so that result() is final.
  bool ended() const { return state_ == State::ended || state_ == State::released; }

  /// Returns the next report, the same one until mark_reported() is called; null if there is none to send yet.
  const JobReport* next_report(double now);
  /// Marks the last next_report() as sent.
  void mark_reported(double now);
  /// Returns whether a report, with log lines or values, is left to be sent before the result.
  bool has_unsent_reports() const;
  const JobResult& result() const { return result_; }

  /// Asks the job to stop; a job without a command ends at once. A later, larger reason changes the outcome.
  void request_stop(StopReason reason, double now);
  /// Kills the job after a request to stop. If the command has ended, no longer waits for its files.
  void kill();
  /// Returns whether the command runs and its channel is connected.
  bool connected() const { return command_ && !exited_ && command_->connected(); }
  /// Returns whether the channel has closed while the command runs: rank 0 has ended, or its host does not answer.
  bool has_lost_channel() const {
    return state_ == State::running && !exited_ && has_connected_ && !command_->connected();
  }
  /// Kills a running job, which then ends as an error with the text `why`. Does nothing after a request to stop.
  void fail(const std::string& why);
  /// Kills the job and writes nothing more to the queue, because the lease is lost or the queue refuses the job.
  void give_up();
  /// Makes the result preempted, before the start or after the end of the command, so that another agent takes the job.
  /// The result's error is `why`, the fault of this machine, then `before`, the job's own error, if any.
  void give_back(const std::string& why, const std::string& before = "");
  /// Returns whether the machine failed to start the job.
  bool could_not_start() const { return could_not_start_; }
  /// Returns the program that this agent's folder lacks, so that start() gave the job back; empty if none is missing.
  const std::filesystem::path& missing_program() const { return missing_program_; }
  /// Logs outcome, duration and exit code of a command that ran. Called after the queue has taken the result.
  void log_end() const;
  /// Marks the result of the ended job as recorded by the queue.
  void mark_recorded() { state_ = State::released; }
  /// Returns the time at which SIGKILL was or will be sent to the running command; kNever if it will not, or none runs.
  double killed_at() const { return command_ && !exited_ ? killed_at_ : kNever; }
  /// Returns whether nothing more is written to the queue.
  bool stopped_reporting() const { return state_ == State::lost || state_ == State::released; }

  const Lease& lease() const { return lease_; }
  const JobSlots& slots() const { return slots_; }

 private:
  enum class State {
    starting,  // no process yet
    running,
    stopping,     // asked to stop over its socket
    terminating,  // SIGTERM was sent
    killing,      // SIGKILL was sent after a request
    failing,      // SIGKILL was sent by fail()
    lost,         // SIGKILL was sent by give_up(); nothing more is written
    ended,        // no process; reports and result are still to be written
    released      // no process; nothing more is written
  };

  /// Holds the results of the first file work of an attempt.
  struct Prepared {
    std::filesystem::path folder;
    std::shared_ptr<OutputFile> output;
    std::optional<MissingArtifacts> missing;
  };
  /// Holds the results of the last file work before the start.
  struct Started {
    std::unique_ptr<RunningCommand> command;
    std::filesystem::path resumed_from;
    std::vector<std::string> notes;
  };
  /// Step 1 of start(): asks the queue for the job in `after`, makes the attempt's folder and log, and finds missing
  /// artifacts. Returns false while the file work runs.
  bool prepare(JobQueue& queue);
  /// Step 2 of start(): fetches missing artifacts. Returns false while the transfer runs. Throws NodeError if the store
  /// is not reached.
  bool fetch();
  /// Step 3 of start(): makes and starts the command. Returns false while a background thread does this. Throws
  /// NodeError if that takes longer than FileWork::kPatience.
  bool launch();
  /// Returns whether a piece of file work has ended. Throws NodeError if it takes longer than FileWork::kPatience.
  template <class Value>
  bool is_file_work_done(const std::future<Value>& piece) const;
  /// Returns the newest checkpoint or product, relative to the attempt's folder; empty if none is to be uploaded.
  std::string checkpoint_to_upload() const;
  void upload_result();      // passes the end of the attempt and its result to the uploader
  void receive(double now);  // takes messages from the channel
  /// Takes over values, metrics and checkpoints of one message.
  void handle_message(const ProgressMessage& message, double now);
  void read_output(double now, bool all);  // adds the command's output to the log; `all`: up to its end
  /// Kills the job (fail()) without progress for stall_seconds: no message of another step, or, if it has sent none, no
  /// output and no growth of metrics.jsonl. Output of a sweep's program counts for 100 stall_seconds.
  void check_stall(double now);
  /// Returns the most seconds between two ticks that count as time without progress: after them, the machine slept.
  double longest_between_ticks() const;
  void send_sigterm();        // SIGKILL follows after kill_grace()
  void kill_now();            // sends SIGKILL
  double kill_grace() const;  // seconds between SIGTERM and SIGKILL
  /// Ends an attempt whose command was never started.
  void end_without_process(Outcome outcome, const std::string& error);
  /// Handles the end of the command: ends the log and sets the outcome.
  void end_command(const ExitStatus& status);
  /// Sets outcome and error according to the exit status and the requests to stop.
  void set_outcome(const ExitStatus& status);
  /// Starts reading the files of an attempt whose command has ended.
  void read_files();
  /// Sets the result after the files were read.
  void finish_end();
  /// Takes the results of file work that has ended since the last call, and starts the file work that follows it.
  void take_file_work(double now);
  /// Adds a checkpoint, relative to the run root, to the next report, and uploads it.
  void publish(const std::string& checkpoint);
  /// Returns at most kProgressMetrics of `numbers`, the job's metric among them. Logs, once each, that numbers were
  /// left out and the invalid entries of `message`.
  std::map<std::string, double> limited_values(const std::map<std::string, double>& numbers,
                                               const ProgressMessage& message);
  /// Counts an invalid message and logs the first kBadMessagesNamed of a job.
  void count_bad_message(const std::string& what);
  /// Logs a text about an invalid part of a message. The first one is added to the error of a missing result.
  void log_useless(const std::string& what);
  /// Returns whether a training's metrics.jsonl has another size than at the last call; empty while it is examined.
  std::optional<bool> metrics_file_grows();
  void add_values(int64_t step, const std::map<std::string, double>& values);  // adds values to the history
  std::string packed_history() const;  // history_ in at most Limits::kHistory bytes (history::pack)
  /// Returns whether a report must be sent at once: an evaluation or a checkpoint.
  bool urgent() const { return !evaluations_.empty() || !progress_.checkpoint.empty(); }
  std::string log_name() const;

  Lease lease_;
  JobSlots slots_;
  const AgentOptions& options_;
  ArtifactUploader* uploader_;
  World& world_;
  bool runs_own_program_;  // a command of the sweep in place of foretime (jobs/sweep/program_trial.h)
  spdlog::logger& logger_;
  std::filesystem::path folder_;
  FileWork work_;
  std::unique_ptr<JobLog> log_;
  std::unique_ptr<RunningCommand> command_;

  State state_ = State::starting;
  StopReason stop_reason_ = StopReason::none;
  // Times in seconds of World::steady_seconds.
  double stop_requested_at_ = 0, started_at_ = 0, last_progress_at_ = 0, last_tick_at_ = 0, killed_at_ = kNever,
         last_kill_ = 0;
  JobResult result_;

  JobReport progress_;                  // values since the last report
  std::deque<JobReport> evaluations_;   // separate reports, since each may decide a rung
  std::optional<JobReport> in_flight_;  // report returned by next_report() and not marked as sent
  bool changed_ = false;                // progress_ has changed since the last report
  double last_report_ = -1e9;           // time of the last report

  std::map<std::string, double> metrics_;  // metrics of the last evaluation or result
  std::string checkpoint_;                 // newest checkpoint, relative to the run root
  std::string unreadable_checkpoint_;   // a newer checkpoint, as the job named it, that failed storage could not read
  std::filesystem::path resumed_from_;  // checkpoint that the attempt continued from
  std::filesystem::path missing_program_;
  std::string evaluation_stdout_;  // stdout of an evaluation job
  std::string failure_reason_;     // reason given to fail()
  bool has_connected_ = false, has_result_ = false, has_messages_ = false, could_not_start_ = false;
  bool start_waits_ = false;                        // the start waits for files or artifacts
  bool ran_to_end_ = false;                         // a command ended, and its files were read
  bool exited_ = false;                             // the command has ended; its files are being read
  std::optional<std::optional<JobRecord>> needed_;  // first job of `after`; empty: the queue was not asked yet
  std::future<Prepared> preparing_;
  std::future<Started> starting_;
  std::deque<std::pair<std::string, std::future<std::string>>> publishing_;  // paths as the job named them
  std::future<uint64_t> measuring_;                                          // bytes of metrics.jsonl
  std::future<AttemptEnd> reading_;
  AttemptEnd end_;
  std::optional<MissingArtifacts> missing_;
  std::optional<FetchedArtifact> fetched_;
  history::History history_;           // metrics of all attempts
  bool history_changed_ = false;       // history_ has changed since it was last reported
  bool has_values_ = false;            // the job has sent values; they replace the losses of its progress messages
  std::optional<int64_t> first_loss_;  // step of the first loss added to history_ while the job had sent no values
  double history_reported_at_ = -1e9;
  uint64_t metrics_bytes_ = 0;     // size of metrics.jsonl at the last check
  int64_t scored_candidates_ = 0;  // number of scored candidates in the last progress message
  int64_t bad_messages_ = 0;
  std::string first_useless_message_;     // text about the first invalid message or entry
  std::set<std::string> logged_entries_;  // entries of messages that the log has already named
  double last_message_at_ = 0;            // time of the last message that showed progress
};

}  // namespace foretime::jobs
