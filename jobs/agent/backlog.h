#pragma once

#include <string>

#include <spdlog/logger.h>

#include "jobs/agent/agent_options.h"
#include "jobs/agent/program_folder.h"
#include "jobs/queue/queue.h"

namespace foretime::jobs {

/// Finds the waiting jobs of the queue that an agent cannot run.
class Backlog {
 public:
  Backlog(const AgentOptions& options, const ProgramFolder& programs, spdlog::logger& log)
      : options_(options), programs_(programs), log_(log) {}
  /// Logs a warning about waiting jobs that can never fit or whose program this agent does not run. Returns whether the
  /// agent may end: until_empty is set, and the queue has no other jobs that have not ended. Called while the agent
  /// runs no job. Throws the errors of the queue.
  bool is_drained(JobQueue& queue);

 private:
  const AgentOptions& options_;
  const ProgramFolder& programs_;
  spdlog::logger& log_;
  std::string warning_;  // last warning, so that each is logged once
};

}  // namespace foretime::jobs
