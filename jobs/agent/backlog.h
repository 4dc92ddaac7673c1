#pragma once

#include <string>

#include <spdlog/logger.h>

#include "jobs/agent/agent_options.h"
#include "jobs/agent/program_folder.h"
#include "jobs/queue/queue.h"

namespace foretime::jobs {

/// What waits in the queue that an agent cannot have.
class Backlog {
 public:
  Backlog(const AgentOptions& options, const ProgramFolder& programs, spdlog::logger& log)
      : options_(options), programs_(programs), log_(log) {}
  /// To be called when there is nothing to claim and nothing to do. Warns about jobs that can never fit or whose
  /// program this agent does not run. Returns whether the agent is done, which it is with until_empty only. Throws what
  /// the queue throws.
  bool is_all(JobQueue& queue);

 private:
  const AgentOptions& options_;
  const ProgramFolder& programs_;
  spdlog::logger& log_;
  std::string warning_;  // the last one, so that each is given once
};

}  // namespace foretime::jobs
