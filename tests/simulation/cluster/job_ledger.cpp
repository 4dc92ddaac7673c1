#include "tests/simulation/cluster/job_ledger.h"

#include <algorithm>
#include <functional>

namespace foretime::simulation {

TrainingPlan draw_plan(Scheduler& scheduler, jobs::JobKind kind, double minutes) {
  TrainingPlan plan;
  plan.kind = kind;
  const double seconds = minutes * 60 * (0.1 + 1.8 * scheduler.fraction());
  plan.steps =
      std::max(scheduler.integer(3, 30), static_cast<int64_t>(seconds / 400) + 1);  // an agent kills after 600 s
  plan.step_seconds = seconds / static_cast<double>(plan.steps);
  plan.checkpoint_every = scheduler.integer(1, 6);
  plan.bad = scheduler.chance(0.03);
  if (scheduler.chance(0.15)) plan.crashes = scheduler.integer(1, 3);
  plan.hangs = scheduler.chance(0.03);
  plan.deaf = scheduler.chance(0.05);
  plan.deadly = scheduler.chance(0.01);
  return plan;
}

double objective_at(const std::string& job, int64_t step) {
  return static_cast<double>(std::hash<std::string>()(job) % 1000) / 1000 + static_cast<double>(step);
}

}  // namespace foretime::simulation
