#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/simulation/cluster/agents.h"
#include "tests/simulation/cluster/environment.h"
#include "tests/simulation/cluster/invariants.h"
#include "tests/simulation/cluster/job_ledger.h"
#include "tests/simulation/cluster/trainings.h"

namespace foretime::simulation {

/// What goes wrong: some kinds of fault, one after the other.
class Faults {
 public:
  Faults(Environment& env, JobLedger& ledger, Trainings& trainings, Agents& agents, Invariants& invariants)
      : env_(env), ledger_(ledger), trainings_(trainings), agents_(agents), invariants_(invariants) {}

  /// Draws the kinds and how often one comes. Each run has some kinds only: what always comes together hides what comes
  /// of one ("swarm testing").
  void choose();
  void plan_next();
  /// No new ones; what lasts for a while yet ends by itself.
  void stop() { stopped_ = true; }
  /// For at most so many seconds.
  void crash_redis(double longest);

  /// What SimulatedFiles::fail_by asks.
  int file_fault(const char* operation);

 private:
  struct Fault {
    const char* kind;
    std::function<void()> begin;
  };
  std::vector<Fault> of_agents_and_jobs();
  std::vector<Fault> of_redis();
  std::vector<Fault> of_disks_clock_and_power();
  /// For a while, then back to normal.
  void trouble_for(double seconds, const std::string& what, const std::function<void(bool)>& set);
  double some_seconds(double longest);
  int64_t some_node() { return env_.scheduler.integer(0, kNodes - 1); }
  void kill_a_job();
  void freeze_a_node();
  void cut_off_a_node();
  void move_clock_of_redis();
  void break_a_disk();
  void lose_power();

  Environment& env_;
  JobLedger& ledger_;
  Trainings& trainings_;
  Agents& agents_;
  Invariants& invariants_;
  std::vector<Fault> chosen_;
  double minutes_between_ = 30;
  bool stopped_ = false, disk_full_ = false;
  std::map<int64_t, int> broken_disks_;  // by node: the errno
};

}  // namespace foretime::simulation
