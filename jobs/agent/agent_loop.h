#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "jobs/agent/agent_heartbeat.h"
#include "jobs/agent/agent_job.h"
#include "jobs/agent/agent_link.h"
#include "jobs/agent/agent_options.h"

namespace foretime::jobs {

/// The CPUs and GPUs of an agent. A GPU belongs to one job at a time.
class Slots {
 public:
  Slots(int64_t cpus, const std::vector<std::string>& gpus);
  int64_t free_cpus() const { return free_cpus_; }
  int64_t free_gpus() const { return static_cast<int64_t>(free_gpus_.size()); }
  /// The job's GPUs; empty where it does not fit.
  std::optional<std::vector<std::string>> take(const Resources& resources);
  void give_back(const Resources& resources, const std::vector<std::string>& gpus);

 private:
  int64_t free_cpus_;
  std::vector<std::string> free_gpus_;
};

/// How often the agent was asked to end; a signal handler counts and wakes the loop by the descriptor (an eventfd).
struct StopRequests {
  std::atomic<int> count{0};
  int descriptor = -1;
};

std::string host_name();

/// The agent's loop: claims jobs, watches them, forwards their reports, and obeys the queue. One thread; see
/// jobs/agent/agent.h.
class AgentLoop {
 public:
  AgentLoop(const AgentOptions& options, const QueueFactory& make_queue, const Proposer& proposer, Slots slots,
            const StopRequests& stops, spdlog::logger& log);
  int64_t run();

 private:
  struct Held {
    std::unique_ptr<AgentJob> job;
    bool has_slots = true;
  };

  void obey_stop_requests(double now);
  void obey_directives(double now);
  void obey(AgentJob& job, Directive directive, double now);
  void start_jobs();
  void forward(Held& held);
  void finish(AgentJob& job);
  void claim_jobs();
  bool claim_one();
  void look_for_an_end();
  void give_back(const Lease& lease);
  void reap(double now);
  bool done(double now);
  void wait();
  int64_t running() const;
  /// Calls the queue; false where Redis is away, or this job's call was refused, which ends its attempt here.
  template <class Call>
  bool with_queue(AgentJob& job, const Call& call);

  const AgentOptions& options_;
  const Proposer& proposer_;
  Slots slots_;
  const StopRequests& stops_;
  spdlog::logger& log_;
  std::unique_ptr<JobQueue> queue_;
  Link link_;
  Heartbeat heartbeat_;
  std::vector<Held> jobs_;
  std::string claim_token_;  // of a claim without an answer; empty: none is open
  bool drained_ = false, reaping_ = true, told_too_large_ = false;
  int obeyed_stops_ = 0;
  double claim_pause_ = 1;  // seconds, after a claim that found nothing
  double next_claim_ = 0, next_reap_ = 0, stopped_at_ = 0;
  int64_t finished_ = 0;
};

}  // namespace foretime::jobs
