#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "jobs/queue/job.h"
#include "jobs/queue/queue.h"
#include "tests/simulation/cluster/environment.h"
#include "tests/simulation/cluster/job_ledger.h"

namespace foretime::simulation {

/// People at a queue, until the faults stop. They repeat every call until it is answered.
class Users {
 public:
  Users(Environment& env, JobLedger& ledger) : env_(env), ledger_(ledger) {}

  // Each is a task of its own.

  /// Somebody who submits jobs, and now and then cancels one.
  void submit_jobs();
  /// Somebody who submits sweeps, pauses and resumes them, and now and then cancels one.
  void submit_sweeps();
  /// Somebody else with a hand on all jobs: tries again what ended badly, changes priorities, cancels, submits what is
  /// there already, and now and then pauses the whole queue.
  void look_after_jobs();
  /// Somebody who sees that what was resumed just before Redis crashed is paused again.
  void resume_again();

 private:
  bool at_work() const;
  jobs::JobSpec training(int64_t number);
  /// False: refused, because what it needs has ended badly meanwhile.
  bool submit(jobs::JobQueue& queue, jobs::JobSpec& spec);
  void submit_again(jobs::JobQueue& queue);
  /// Notes that the queue has answered that a job is there. False: Redis crashed while that answer was on its way, and
  /// has forgotten the job.
  bool note_submission(const std::string& job);
  void retry_one(jobs::JobQueue& queue);
  void pause_for(jobs::JobQueue& queue, const std::string& sweep, double most_seconds);
  /// Repeats a call until it is answered. False: it was refused.
  template <class Call>
  bool persist(const Call& call);
  template <class Elements>
  const auto& one_of(const Elements& elements);

  Environment& env_;
  JobLedger& ledger_;
  std::deque<jobs::JobSpec> recent_;  // submitted last
};

}  // namespace foretime::simulation
