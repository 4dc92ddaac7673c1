#include "jobs/agent/backlog.h"

#include <cstdint>

namespace foretime::jobs {

bool Backlog::is_all(JobQueue& queue) {
  // Before the look at what waits: a job that comes to wait in between is then seen there.
  const bool quiet =
      options_.until_empty && queue.none_in({JobState::blocked, JobState::delayed, JobState::held, JobState::active});
  const auto demands = queue.waiting();
  int64_t too_large = 0, all = 0;
  Demand example;
  for (const auto& [demand, jobs] : demands) {
    all += jobs;
    if (demand.cpus <= options_.cpus && demand.gpus <= static_cast<int64_t>(options_.gpus.size())) continue;
    too_large += jobs;
    example = demand;
  }
  if (too_large > 0 && !told_too_large_) {
    log_.warn(
        "agent {}: {} jobs that wait need more than this agent has, {} CPUs and {} GPUs for one of them: see "
        "--cpus and --gpus",
        options_.name, too_large, example.cpus, example.gpus);
  }
  told_too_large_ = too_large > 0;
  return quiet && too_large == all;
}

}  // namespace foretime::jobs
