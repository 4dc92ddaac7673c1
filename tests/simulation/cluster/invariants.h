#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/cluster/agents.h"
#include "tests/simulation/cluster/environment.h"
#include "tests/simulation/cluster/facts.h"
#include "tests/simulation/cluster/job_ledger.h"

namespace foretime::simulation {

/// What must hold, whatever goes wrong. Reads the keys of Redis directly; ends the simulation by Environment::fail.
class Invariants {
 public:
  Invariants(Environment& env, JobLedger& ledger, const Agents& agents);

  /// After each command: the newest transitions, who may write, and all that is known of the jobs that it touched.
  void after_command(const std::vector<std::string>& call, const Answer& answer);
  /// All of the keys at one moment; no job is lost.
  void check();
  /// Where nothing was wrong for a quarter of an hour: each lease is held by an agent that lives, which renews it.
  void check_calm();
  /// Nothing that was there is lost later.
  void check_results();
  bool all_ended() const;
  /// Name of the script that a call runs; empty: of another command.
  std::string script_of(const std::vector<std::string>& call) const;
  /// Called at each claim.
  std::function<void(const std::string& job, const std::string& agent)> claimed;
  /// Fails, and names a job that has not ended.
  void check_all_ended();

  /// After a crash: jobs whose submission was answered within the second before it may be gone, with appendfsync
  /// everysec, and so may transitions.
  void forget_what_redis_lost();
  void forget(const std::string& job);

 private:
  void read_transitions();
  void check_transition(const std::map<std::string, std::string>& event);
  void check_claim(const std::string& job, int64_t fence);
  /// Who writes holds the newest lease. A result may be said twice: then it changes nothing.
  void check_writer(const std::vector<std::string>& call, const Answer& answer);
  /// No `succeeded` without a result, and its checkpoint is the job's own, the last, and whole.
  void check_result(const std::string& job);
  /// A job ends badly through its own faults only.
  void check_bad_end(const std::string& job, jobs::JobState state);
  std::string field(const std::string& job, const std::string& name);

  Environment& env_;
  JobLedger& ledger_;
  const Agents& agents_;
  std::map<std::string, std::string> scripts_;                     // names by SHA-1
  std::pair<int64_t, int64_t> seen_{0, -1};                        // the last transition
  std::map<std::string, int64_t> last_fences_;                     // by job
  std::map<std::string, std::string> last_leases_, fresh_leases_;  // fence and token by job; fresh: of this command
  std::set<std::string> left_;                                     // jobs that ceased to be active by it
  std::set<std::string> told_;                                     // jobs of which its events speak
  Facts facts_;
  bool lost_second_ = false;  // Redis lost writes, in some crash
};

}  // namespace foretime::simulation
