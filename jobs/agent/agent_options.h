#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "jobs/agent/allowed_roots.h"
#include "jobs/agent/launcher.h"
#include "jobs/queue/queue.h"

namespace foretime::jobs {

struct AgentOptions {
  std::string name;               // host:pid:random where empty
  std::string version;            // for whoever watches
  int64_t cpus = 0;               // slots; 0: all cores
  std::vector<std::string> gpus;  // ids as CUDA_VISIBLE_DEVICES takes them
  int64_t max_jobs = 0;           // at once; 0: as many as fit
  AllowedRoots roots;
  Launcher launcher{"auto"};
  std::string program;  // the foretime that runs jobs; empty: this one (/proc/self/exe)
  Milliseconds lease_term{30000};
  double stall_seconds = 600;       // a job that shows no progress for so long is killed and tried again
  double stop_grace_seconds = 120;  // for a checkpoint, after a request to stop, before SIGTERM
  double drain_seconds = 600;       // SIGTERM: jobs get so long to checkpoint
  bool until_empty = false;         // end when no job is left that this agent could ever run
};

/// Makes a queue with a connection of its own; the agent has one for its loop and one for its heartbeat.
using QueueFactory = std::function<std::unique_ptr<JobQueue>()>;
/// Decides deferred parameters of a lease (jobs/sweep/proposer.h); called before the job's first start.
using Proposer = std::function<Parameters(JobQueue& queue, const Lease& lease)>;

}  // namespace foretime::jobs
