#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "jobs/queue/job.h"
#include "tests/simulation/scheduler.h"

namespace foretime::simulation {

/// What a simulated training is made of; drawn once for each job.
struct TrainingPlan {
  jobs::JobKind kind = jobs::JobKind::train;
  int64_t steps = 10;
  double step_seconds = 60;
  int64_t checkpoint_every = 3;
  bool bad = false;     // ends with exit code 3 whenever it is tried
  int64_t crashes = 0;  // attempts that end by the job's own fault
  bool hangs = false;   // the first attempt shows no progress after a while
  bool deaf = false;    // does not listen to requests, nor to SIGTERM
  bool deadly = false;  // takes its whole node down with it, whenever it is tried
};

/// A plan for a job that takes `minutes` on the average.
TrainingPlan draw_plan(Scheduler& scheduler, jobs::JobKind kind, double minutes);
/// What a training reports after a step.
double objective_at(const std::string& job, int64_t step);

/// What the simulation knows of the jobs without asking Redis; by job id.
struct JobLedger {
  struct Submitted {
    Time at = 0;  // when the answer came; 0: it has not
    jobs::JobState state = jobs::JobState::waiting;
    Time ended = 0;  // when it came to its end
    bool forgotten = false;
  };
  std::map<std::string, Submitted> submitted;
  std::map<std::string, TrainingPlan> plans;
  std::map<std::string, int64_t> own_failures;  // attempts that ended by the job's own fault
  std::map<std::string, Time> paused;           // sweeps that are paused, by when that was answered; "": the queue
  std::map<std::string, Time> resumed;          // likewise

  void forget(const std::string& job) {
    submitted.erase(job);
    plans.erase(job);
    own_failures.erase(job);
  }
};

}  // namespace foretime::simulation
