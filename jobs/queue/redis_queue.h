#pragma once

#include <map>
#include <string>
#include <vector>

#include "jobs/queue/queue.h"
#include "jobs/queue/scripts.h"
#include "jobs/redis/redis_client.h"

namespace foretime::jobs {

/// The queue in Redis; docs/reference/jobs.md has its keys. Each transition is one Lua script (jobs/queue/scripts), so
/// that it happens whole or not at all; where a transition concerns many jobs its scripts go on in batches. As
/// thread-safe as its client: one for each thread.
class RedisQueue final : public JobQueue {
 public:
  /// `client` must outlive the queue. Talks to Redis at the first call.
  RedisQueue(RedisClient& client, QueueSettings settings, QueueClock clock = QueueClock::redis);

  bool create_sweep(const SweepSpec& sweep) override;
  bool submit(const JobSpec& job) override;
  std::optional<Lease> claim(const ClaimRequest& request) override;
  Directive renew(const Lease& lease, Milliseconds term) override;
  Directive report(const Lease& lease, const JobReport& report) override;
  bool propose(const Lease& lease, const Parameters& parameters, int64_t known) override;
  bool finish(const Lease& lease, const JobResult& result, double jitter) override;
  CancelOutcome cancel(const std::string& id) override;
  int64_t cancel_sweep(const std::string& sweep) override;
  void retry(const std::string& id) override;
  void set_priority(const std::string& id, int64_t priority) override;
  void pause(const std::string& sweep) override;
  void resume(const std::string& sweep) override;
  ReapCounts reap() override;
  void heartbeat_agent(const AgentInfo& agent) override;
  std::optional<JobRecord> find(const std::string& id) override;
  bool none_in(const std::vector<JobState>& states) override;
  std::map<Demand, int64_t> waiting() override;

 private:
  using Arguments = std::vector<std::string>;
  /// The script's answer, an array whose first element is a word; throws JobRefused where that is "refused".
  Reply run(const std::string& script, const Arguments& arguments);
  std::string run_word(const std::string& script, const Arguments& arguments);
  Directive run_directive(const std::string& script, const Arguments& arguments);
  Arguments holder(const Lease& lease) const;

  RedisClient& client_;
  QueueSettings settings_;
  std::string prefix_;  // {prefix}:
  std::map<std::string, Script> scripts_;
};

}  // namespace foretime::jobs
