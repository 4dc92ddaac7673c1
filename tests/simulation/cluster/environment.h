#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <spdlog/logger.h>

#include "tests/simulation/cluster/cluster.h"
#include "tests/simulation/cluster/network.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/simulated_files.h"

namespace foretime::simulation {

constexpr int64_t kNodes = 3;
constexpr const char* kRunRoot = "/simulated/runs";
constexpr const char* kDataRoot = "/simulated/data";
constexpr const char* kMetric = "valid/kendall_tau";

/// Ends a simulation; the message is in the report. Not a std::exception, so that no product code handles it.
struct Broken {};

/// What all parts of a simulated cluster share: the clock with its tasks, Redis behind a network, the shared file
/// system, the nodes, and the report.
struct Environment {
  explicit Environment(const ClusterOptions& options);

  int64_t next_process() { return ++processes; }
  void trace(const std::string& what);
  /// An invariant does not hold.
  [[noreturn]] void fail(const std::string& what);

  /// Of a task on a node: a machine that stands still (a virtual machine that is moved) goes on later.
  void thaw(int64_t node);
  /// Of a task: sleeps for a part of these seconds, drawn evenly.
  void wait_up_to(double seconds);

  /// Something is not as it should be, for so long from now on.
  void disturbed(double seconds);
  bool in_trouble() const { return troubles > 0; }

  const ClusterOptions options;
  Scheduler scheduler;
  SimulatedRedis redis;
  SimulatedFiles files;
  spdlog::logger log;
  ClusterReport report;
  int64_t processes = 0;                 // so far
  std::map<int64_t, int64_t> node_of;    // by process
  std::map<int64_t, Time> frozen_until;  // by node
  int64_t troubles = 0;                  // that last for a while, and are not over
  Time calm_since = 0;                   // the last fault ended then
};

}  // namespace foretime::simulation
