#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "jobs/agent/world.h"
#include "tests/simulation/cluster/environment.h"
#include "tests/simulation/cluster/trainings.h"

namespace foretime::simulation {

/// The machine beneath one agent: simulated time, trainings for commands, tasks for threads.
class SimulatedWorld final : public jobs::World {
 public:
  SimulatedWorld(Environment& env, Trainings& trainings, int64_t node)
      : env_(env), trainings_(trainings), node_(node) {}
  double steady_seconds() override;
  uint64_t random_bits() override;
  std::unique_ptr<jobs::RunningCommand> start(jobs::SupervisedProcess::Options command,
                                              const std::filesystem::path& folder) override;
  std::unique_ptr<jobs::Background> run_beside(std::function<double()> step) override;
  std::unique_ptr<jobs::Waiter> make_waiter() override;
  void wake();

 private:
  class LoopWaiter;
  Environment& env_;
  Trainings& trainings_;
  const int64_t node_;
  bool woken_ = false;
};

}  // namespace foretime::simulation
