#include "jobs/agent/backlog.h"

#include <cstdint>

#include <fmt/format.h>

namespace foretime::jobs {

bool Backlog::is_drained(JobQueue& queue) {
  // Before the look at what waits: a job that comes to wait in between is then seen there.
  const bool quiet =
      options_.until_empty && queue.none_in({JobState::blocked, JobState::delayed, JobState::held, JobState::active});
  int64_t too_large = 0, of_programs = 0, all = 0;
  Demand example;
  for (const auto& [demand, jobs] : queue.waiting()) {
    all += jobs;
    if (!programs_.runs(demand.program)) {
      of_programs += jobs;
    } else if (demand.cpus > options_.cpus || demand.gpus > std::ssize(options_.gpus)) {
      too_large += jobs;
      example = demand;
    }
  }
  std::string warning;
  if (too_large > 0)
    warning = fmt::format(
        "{} waiting jobs need more than this agent has, for example {} CPUs and {} GPUs: see --cpus and --gpus",
        too_large, example.cpus, example.gpus);
  if (of_programs > 0) {
    warning += warning.empty() ? "" : "; ";
    warning += !programs_.path().empty()
                   ? fmt::format("{} waiting jobs need programs that are missing in --programs {}", of_programs,
                                 programs_.path().string())
                   : fmt::format(
                         "{} waiting jobs run user programs: start an agent with --programs FOLDER, "
                         "the folder with these programs, if you trust everybody who may submit",
                         of_programs);
  }
  if (!warning.empty() && warning != warning_) log_.warn("agent {}: {}", options_.name, warning);
  warning_ = warning;
  return quiet && too_large + of_programs == all;
}

}  // namespace foretime::jobs
