#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "jobs/queue/job_hash.h"
#include "jobs/queue/queue.h"
#include "jobs/redis/redis_client.h"
#include "jobs/redis/redis_health.h"

namespace foretime::jobs {

/// A Lua script and its SHA-1, by which Redis identifies it. The text has the modules of jobs/queue/scripts/modules,
/// then the script. The build writes each text as a file NAME.lua in its folder jobs/scripts.
struct Script {
  std::string text, sha1;
};
/// Scripts by the names of their files without .lua.
using Scripts = std::map<std::string, Script>;
/// Returns a script with this text and its SHA-1.
Script script_of(std::string text);
/// Returns the scripts of the queue, which are compiled into the program.
const Scripts& queue_scripts();

/// The queue in Redis; docs/reference/jobs.md lists its keys. Each transition is one Lua script (jobs/queue/scripts),
/// so that it happens whole or not at all; submit_all, cancel_sweep and resume run a script for each batch of jobs. Not
/// thread-safe: make one for each thread. Members without a comment are described at JobQueue.
class RedisQueue final : public JobQueue {
 public:
  /// `client` and `scripts` must outlive the queue. Connects at the first call.
  RedisQueue(RedisClient& client, QueueSettings settings, const Scripts& scripts = queue_scripts());

  bool create_sweep(const SweepSpec& sweep) override;
  bool submit(const JobSpec& job) override;
  std::vector<bool> submit_all(std::span<const JobSpec> jobs) override;
  std::optional<Lease> claim(const ClaimRequest& request) override;
  Directive renew(const Lease& lease, Milliseconds term) override;
  Directive report(const Lease& lease, const JobReport& report) override;
  bool propose(const Lease& lease, const Parameters& parameters) override;
  bool finish(const Lease& lease, const JobResult& result, double jitter) override;
  FinishedAndNext finish_and_claim(const Lease& lease, const JobResult& result, double jitter,
                                   const ClaimRequest& request) override;
  CancelOutcome cancel(const std::string& id) override;
  int64_t cancel_sweep(const std::string& sweep) override;
  void retry(const std::string& id) override;
  void set_priority(const std::string& id, int64_t priority) override;
  void pause(const std::string& sweep) override;
  void resume(const std::string& sweep) override;
  ReapCounts reap() override;
  /// Proposes the rules for finished jobs of the whole queue, and returns the rules that hold. A member of `keep` sets
  /// a rule that the queue lacks, and replaces one with `change`; an empty member changes nothing.
  Retention agree_to_keep(const Retention& keep, bool change);
  /// Returns the queue's identity, a text that no other queue has and by which agents mark their files. If the queue
  /// has none, `proposal` becomes its identity; an empty `proposal` changes nothing, and the result may be empty.
  std::string identity(const std::string& proposal);
  void heartbeat_agent(const AgentInfo& agent) override;
  KeptArtifact may_store(const Lease& lease, const Artifact& artifact, const std::vector<std::string>& roles) override;
  KeptArtifact keep(const Lease& lease, const Artifact& artifact, const std::vector<std::string>& roles,
                    bool ended) override;
  void note_trouble_of_artifacts(const Lease& lease, const std::string& trouble) override;
  JobArtifacts artifacts(const std::string& job) override;
  std::vector<ForgottenArtifacts> forgotten_artifacts() override;
  void removed(const ForgottenArtifacts& artifacts) override;
  std::unique_ptr<WakeUps> wake_ups() override;
  std::optional<JobRecord> find(const std::string& id) override;
  std::optional<StoreState> store_state() override;
  std::string warning() override { return memory_warning(client_); }
  bool none_in(const std::vector<JobState>& states) override;
  std::map<Demand, int64_t> waiting() override;

 private:
  using Arguments = std::vector<std::string>;
  /// Runs the script of this name and returns its answer, an array whose first element is a word. Throws JobRefused
  /// with the second element if that word is "refused".
  Reply run(const std::string& script, const Arguments& arguments);
  /// Runs a script and returns the first word of its answer.
  std::string run_word(const std::string& script, const Arguments& arguments);
  /// Runs a script and returns the directive that its first word names; `proceed` for an unknown word.
  Directive run_directive(const std::string& script, const Arguments& arguments);
  Arguments lease_arguments(const Lease& lease) const;
  /// Runs the script `artifact`; `what` is room or keep.
  KeptArtifact run_artifact(const std::string& what, const Lease& lease, const Artifact& artifact,
                            const std::vector<std::string>& roles, bool ended);
  Arguments claim_arguments(const ClaimRequest& request) const;
  Arguments finish_arguments(const Lease& lease, const JobResult& result, double jitter) const;
  /// Returns the lease in the answer of a claim, which begins at element `first` of `reply`. Ends a job whose record
  /// cannot be read, and returns empty.
  std::optional<Lease> read_lease(const ClaimRequest& request, const redisReply& reply, size_t first);

  RedisClient& client_;
  QueueSettings settings_;
  std::string prefix_;  // {prefix}:
  /// The settings of the sweep of the last claimed trial, which Redis need not send again.
  struct SharedSettings {
    std::string sweep_and_creation{};  // "ID CREATED_MS" of the sweep
    std::string settings{};
  };
  SharedSettings shared_;
  const Scripts& scripts_;
};

}  // namespace foretime::jobs
