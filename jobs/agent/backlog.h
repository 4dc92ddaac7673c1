#pragma once

#include <spdlog/logger.h>

#include "jobs/agent/agent_options.h"
#include "jobs/queue/queue.h"

namespace foretime::jobs {

/// What waits in the queue that an agent cannot have.
class Backlog {
 public:
  Backlog(const AgentOptions& options, spdlog::logger& log) : options_(options), log_(log) {}
  /// To be called when there is nothing to claim and nothing to do. Warns about jobs that can never fit. Returns
  /// whether the agent is done, which it is with until_empty only. Throws what the queue throws.
  bool is_all(JobQueue& queue);

 private:
  const AgentOptions& options_;
  spdlog::logger& log_;
  bool told_too_large_ = false;
};

}  // namespace foretime::jobs
