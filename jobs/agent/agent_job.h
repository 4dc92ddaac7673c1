#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <poll.h>
#include <spdlog/logger.h>

#include "jobs/agent/agent.h"
#include "jobs/agent/agent_log.h"
#include "jobs/agent/agent_socket.h"
#include "jobs/supervisor/supervisor.h"

namespace foretime::jobs {

/// Why a job is asked to end; a larger one wins.
enum class Asked { nothing, drain, stop, cancel };

/// One attempt: its process, socket, log and what it told, without any call to the queue. The agent's loop calls
/// `tick`, hands reports and the result on, and passes on what the queue says.
class AgentJob {
 public:
  AgentJob(Lease lease, std::vector<std::string> gpus, const AgentOptions& options, spdlog::logger& log);

  /// Makes the folder and starts the command. May be called again after RedisUnavailable; any other failure ends the
  /// attempt as failed or as an error.
  void start(JobQueue& queue, const Proposer& proposer);
  bool starting() const { return !process_ && !ended_; }
  void add_descriptors(std::vector<pollfd>& descriptors) const;
  /// Takes what arrived; asks harder where a request to end had no effect, and ends what shows no progress.
  void tick(double now);
  /// Nothing of it lives any more: result() stands.
  bool ended() const { return ended_; }

  /// The next report: the same one until `reported`. Empty where there is nothing (or nothing urgent) to say.
  const JobReport* next_report(double now);
  void reported(double now);
  /// Has anything left to say that the result depends on.
  bool has_news() const;
  const JobResult& result() const { return result_; }

  void ask(Asked why, double now);
  void kill();
  /// The lease is lost: kills the job, of which nothing more is written.
  void abandon();
  bool abandoned() const { return abandoned_; }

  const Lease& lease() const { return lease_; }
  const std::vector<std::string>& gpus() const { return gpus_; }

 private:
  void receive(double now);
  void take(const ProgressMessage& message, double now);
  void read_output(double now, bool all);
  void check_stall(double now);
  void end_without_process(Outcome outcome, const std::string& error);
  void end_as_asked();
  void conclude(const ExitStatus& status);
  void set_outcome(const ExitStatus& status);
  void read_printed_metrics();
  std::string who() const;

  Lease lease_;
  std::vector<std::string> gpus_;
  const AgentOptions& options_;
  spdlog::logger& logger_;
  std::filesystem::path folder_;
  std::unique_ptr<ProgressSocket> socket_;
  std::unique_ptr<JobLog> log_;
  std::unique_ptr<SupervisedProcess> process_;

  JobReport state_;                    // progress, and what is new since the last report
  std::deque<JobReport> evaluations_;  // one report each, since each may decide a rung
  std::optional<JobReport> in_flight_;
  bool dirty_ = false, urgent_ = false;
  double last_report_ = -1e9;

  std::map<std::string, double> metrics_;  // of the last evaluation or the result
  std::string checkpoint_;                 // newest, relative to the run root
  std::string printed_;                    // stdout of an evaluation
  bool output_open_ = true, printed_open_ = true;
  bool has_result_ = false, progressed_ = false;
  int64_t scored_ = 0;  // candidates, as the last progress said
  int64_t bad_messages_ = 0;

  Asked asked_ = Asked::nothing;
  double asked_at_ = 0, started_at_ = 0, life_at_ = 0;
  bool terminated_ = false, killed_ = false, stalled_ = false, abandoned_ = false, ended_ = false;
  JobResult result_;
};

}  // namespace foretime::jobs
