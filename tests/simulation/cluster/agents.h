#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "jobs/agent/agent.h"
#include "tests/simulation/cluster/environment.h"
#include "tests/simulation/cluster/simulated_world.h"
#include "tests/simulation/cluster/trainings.h"

namespace foretime::simulation {

constexpr double kLeaseTerm = 60;  // seconds

/// One real agent on each node, which a service manager starts again whenever it ends.
class Agents {
 public:
  Agents(Environment& env, Trainings& trainings) : env_(env), trainings_(trainings) {}

  void start(int64_t node);
  /// `with_trials`: and what it runs.
  void kill(int64_t node, bool with_trials);
  /// Asks it to end.
  void drain(int64_t node);
  std::set<std::string> names() const;  // of those that live

 private:
  struct Process {
    std::string name;
    int64_t process = 0, node = 0;
    std::unique_ptr<SimulatedWorld> world;
    jobs::Agent* agent = nullptr;  // while it runs
  };
  void run(const std::shared_ptr<Process>& slot);

  Environment& env_;
  Trainings& trainings_;
  int64_t incarnations_ = 0;
  std::map<int64_t, std::shared_ptr<Process>> agents_;  // by node
};

}  // namespace foretime::simulation
