#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace foretime::simulation {

/// A cluster in one process: real agents, queue clients, scripts and checkpoints over a model of Redis, a shared file
/// system in memory, and trainings that only pretend to compute. A seed decides what goes wrong: which kinds of fault,
/// when, and in what order things happen at one moment.
struct ClusterOptions {
  uint64_t seed = 1;
  double hours = 10;          // with faults; then they stop, and every job has to reach an end
  bool trace = false;         // each fault and each transition to stderr
  double minutes_a_job = 20;  // on the average
  double jobs_an_hour = 6;
  bool directed = true;    // also faults that wait for their moment (directed_faults.h), of a generator of their own
  std::string weakness{};  // of tests/simulation/cluster/weaknesses.h: the product is broken so; empty: it is as it is
};

struct ClusterReport {
  double hours = 0;  // simulated, with those after the faults
  int64_t steps = 0, commands = 0, jobs = 0, attempts = 0, succeeded = 0, faults = 0, agents_killed = 0,
          redis_crashes = 0;
  std::map<std::string, int64_t> faults_by_kind;
  uint64_t digest = 0;              // of all transitions: equal for equal seeds
  std::vector<std::string> broken;  // invariants that did not hold, with the time; empty: all is well
};

/// Stops at the first invariant that does not hold.
ClusterReport simulate_cluster(const ClusterOptions& options);

}  // namespace foretime::simulation
