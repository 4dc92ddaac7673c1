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
#include "jobs/agent/artifact_courier.h"
#include "jobs/agent/attempt_end.h"
#include "jobs/agent/file_work.h"
#include "jobs/agent/job_log.h"
#include "jobs/agent/world.h"

namespace foretime::jobs {

/// Why a job is asked to end; a larger one wins.
enum class StopReason { none, drain, early_stopping, cancel };
/// How a job ends that was asked to.
Outcome outcome_of(StopReason reason);

/// One attempt: its process, socket and log, and what it reported. It never calls the queue: the agent's loop calls
/// `tick`, forwards reports and the result to the queue, and passes on what the queue wants. All that it does with
/// files happens on a thread of its own (FileWork), which no other job waits for.
class AgentJob {
 public:
  /// `courier`: null where there is no artifact store. `wake` is called, from any thread, when file work has ended and
  /// `tick` or `start` has something to do.
  AgentJob(Lease lease, JobSlots slots, const AgentOptions& options, ArtifactCourier* courier,
           std::function<void()> wake, World& world, spdlog::logger& log);

  /// Makes the folder and starts the command. To be called again until the job is not `starting()` any more, also after
  /// RedisUnavailable. A failure of the machine (StorageError, NodeError, or no answer within FileWork::kPatience)
  /// gives the job back, with `could_not_start`; any other ends the attempt as failed or as an error.
  void start(JobQueue& queue, const Proposer& proposer);
  bool starting() const { return state_ == State::starting; }
  /// It has ended, and nothing of it is still to be stored.
  bool stored() const;
  void add_descriptors(std::vector<pollfd>& descriptors) const;
  /// Reads what arrived, sends SIGTERM or SIGKILL where a request to stop had no effect, and kills a job without
  /// progress.
  void tick(double now);
  /// When tick() has something to do although nothing became readable.
  double next_timer() const;
  /// When it has something to say to the queue.
  double next_call() const;
  /// No process of it lives, and result() stands.
  bool ended() const { return state_ == State::ended || state_ == State::released; }

  /// The next report: the same one until `reported`. Empty where there is nothing (or nothing urgent) to say.
  const JobReport* next_report(double now);
  void reported(double now);
  /// Has anything left to say that the result depends on.
  bool has_news() const;
  const JobResult& result() const { return result_; }

  void request_stop(StopReason reason, double now);
  void kill();
  bool connected() const { return command_ && !exited_ && command_->connected(); }
  /// Its channel was there and has gone, while its command runs: rank 0 has ended, or its host does not answer.
  bool deserted() const { return state_ == State::running && !exited_ && has_connected_ && !command_->connected(); }
  /// Kills it: an error, for what `why` says.
  void fail(const std::string& why);
  /// The lease is lost, or the queue refuses this job's calls: kills the job and writes nothing more.
  void give_up();
  /// Another agent may have the job: nothing was wrong with it. Before its start, or after its end.
  /// `before`: what was thought to be wrong, for its result.
  void give_back(const std::string& why, const std::string& before = "");
  /// The machine could not even start it.
  bool could_not_start() const { return could_not_start_; }
  /// The program that this agent's folder lacks, for which it was given back before its start; empty: none is missing.
  const std::filesystem::path& missing_program() const { return missing_program_; }
  /// Says how a command ended whose result the queue has taken.
  void log_end() const;
  /// The queue has the result of this job, which has ended.
  void mark_recorded() { state_ = State::released; }
  /// When SIGKILL was sent to its command, or will have been; kNever: there is no command, or no reason to kill it.
  double killed_at() const { return command_ && !exited_ ? killed_at_ : kNever; }
  /// Nothing more is to be written to the queue.
  bool silent() const { return state_ == State::lost || state_ == State::released; }

  const Lease& lease() const { return lease_; }
  const JobSlots& slots() const { return slots_; }

 private:
  enum class State {
    starting,     // has no process yet
    running,      //
    stopping,     // asked to stop over its socket
    terminating,  // SIGTERM was sent
    killing,      // SIGKILL was sent, by request
    failing,      // SIGKILL was sent: fail()
    lost,         // SIGKILL was sent, and nothing more is written: give_up()
    ended,        // without a process; its reports and its result are still to be written
    released      // without a process, and nothing more is written
  };

  /// What the first piece of file work makes.
  struct Prepared {
    std::filesystem::path folder;
    std::shared_ptr<OutputFile> output;
    std::optional<MissingArtifacts> missing;
  };
  /// What the last piece before the start makes.
  struct Started {
    std::unique_ptr<RunningCommand> command;
    std::filesystem::path resumed;
    std::vector<std::string> notes;
  };
  /// Each returns false while it waits for files, or for artifacts that are on their way.
  bool prepare(JobQueue& queue);
  bool fetch();
  bool launch();
  /// Whether a piece of file work has ended. Throws NodeError where it hangs.
  template <class Value>
  bool has_arrived(const std::future<Value>& piece) const;
  std::string to_store() const;
  void store_result();
  void receive(double now);
  void take(const ProgressMessage& message, double now);
  void read_output(double now, bool all);
  void check_stall(double now);
  /// More seconds than these do not count as time without progress: nobody looked.
  double longest_between_ticks() const;
  void send_sigterm();
  void kill_now();
  double kill_grace() const;  // seconds between SIGTERM and SIGKILL
  void end_without_process(Outcome outcome, const std::string& error);
  void conclude(const ExitStatus& status);
  void set_outcome(const ExitStatus& status);
  /// Has the files of an attempt read whose command has ended.
  void read_files();
  void finish_conclusion();
  /// Takes what file work has found since the last call.
  void take_file_work(double now);
  /// `checkpoint`: relative to the run root.
  void publish(const std::string& checkpoint);
  /// Returns at most kProgressMetrics of `numbers`, the job's metric among them, and logs what was left out.
  std::map<std::string, double> kept(const std::map<std::string, double>& numbers, const ProgressMessage& message);
  /// Logs what was of no use in a message; the first such text is part of the error of a result that is missing.
  void complain(const std::string& what);
  /// Whether the metrics file of a training without messages is larger than before; empty while that is not known.
  std::optional<bool> grows();
  void measured(int64_t step, const std::map<std::string, double>& values);
  std::string packed_history() const;
  bool urgent() const { return !evaluations_.empty() || !progress_.checkpoint.empty(); }
  std::string who() const;

  Lease lease_;
  JobSlots slots_;
  const AgentOptions& options_;
  ArtifactCourier* courier_;
  World& world_;
  bool runs_own_program_;  // a command of the sweep in place of foretime (jobs/sweep/program_trial.h)
  spdlog::logger& logger_;
  std::filesystem::path folder_;
  FileWork work_;
  std::unique_ptr<JobLog> log_;
  std::unique_ptr<RunningCommand> command_;

  State state_ = State::starting;
  StopReason stop_reason_ = StopReason::none;
  double stop_requested_at_ = 0, started_at_ = 0, last_progress_at_ = 0, last_tick_at_ = 0, killed_at_ = kNever,
         last_kill_ = 0;
  JobResult result_;

  JobReport progress_;                 // with what is new since the last report
  std::deque<JobReport> evaluations_;  // one report each, since each may decide a rung
  std::optional<JobReport> in_flight_;
  bool changed_ = false;  // progress_, since the last report
  double last_report_ = -1e9;

  std::map<std::string, double> metrics_;  // of the last evaluation or the result
  std::string checkpoint_;                 // newest, relative to the run root
  std::string unseen_checkpoint_;          // newer, as the job named it: the storage failed when it was looked at
  std::filesystem::path resumed_;          // that it went on from
  std::filesystem::path missing_program_;
  std::string printed_;  // stdout of an evaluation
  std::string failure_;  // of fail()
  bool has_connected_ = false, has_result_ = false, has_messages_ = false, could_not_start_ = false;
  bool waits_ = false;                              // its start waits for files or artifacts
  bool ran_to_end_ = false;                         // a command did, and its files were read
  bool exited_ = false;                             // the command; its files are being read
  std::optional<std::optional<JobRecord>> needed_;  // the first job of `after`, once the queue was asked
  std::future<Prepared> preparing_;
  std::future<Started> starting_;
  std::deque<std::pair<std::string, std::future<std::string>>> publishing_;  // paths as the job named them
  std::future<uint64_t> measuring_;                                          // bytes of metrics.jsonl
  std::future<AttemptEnd> reading_;
  AttemptEnd end_;
  std::optional<MissingArtifacts> missing_;
  std::optional<FetchedArtifact> fetched_;
  /// Of all attempts; what the job names as values takes the place of its loss.
  history::History history_;
  bool history_changed_ = false, has_values_ = false;  // since it was reported; the job ever named any
  std::optional<int64_t> first_loss_;                  // step of the first loss that was kept for want of values
  double history_reported_at_ = -1e9;
  uint64_t metrics_bytes_ = 0;  // of metrics.jsonl, when it was looked at
  int64_t scored_ = 0;          // candidates, as the last progress said
  int64_t bad_messages_ = 0;
  std::string first_complaint_;             // about a message, or entries of one, that was of no use
  std::set<std::string> left_out_entries_;  // of messages, which the log has named
  double last_message_at_ = 0;              // that showed progress
};

}  // namespace foretime::jobs
