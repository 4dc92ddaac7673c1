#include "jobs/agent/backlog.h"

#include <cstdint>

#include <fmt/format.h>

namespace foretime::jobs {

bool Backlog::is_all(JobQueue& queue) {
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
        "{} jobs that wait need more than this agent has, {} CPUs and {} GPUs for one of them: see --cpus and --gpus",
        too_large, example.cpus, example.gpus);
  if (of_programs > 0) {
    warning += warning.empty() ? "" : "; ";
    warning += !programs_.path().empty()
                   ? fmt::format("{} jobs wait for programs that --programs {} does not have", of_programs,
                                 programs_.path().string())
                   : fmt::format(
                         "{} jobs that wait run programs of their own: start an agent with --programs FOLDER, "
                         "the folder that has these, where you trust whoever may submit",
                         of_programs);
  }
  if (!warning.empty() && warning != warning_) log_.warn("agent {}: {}", options_.name, warning);
  warning_ = warning;
  return quiet && too_large + of_programs == all;
}

}  // namespace foretime::jobs
