#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/simulation/cluster/environment.h"
#include "tests/simulation/cluster/invariants.h"

namespace foretime::simulation {

/// Faults that wait for their moment, which chance would hardly find: what a former holder of a lease wrote arrives
/// when somebody else has the job. A generator of its own chooses among them, so that a seed without them is as it was.
class DirectedFaults {
 public:
  DirectedFaults(Environment& env, Invariants& invariants, std::function<void(double seconds)> crash_redis,
                 std::function<void()> crashed);

  /// Draws which of them this run has; every eight minutes on the average each waits for its next moment.
  void choose();
  void stop();

 private:
  enum class Kind {
    late_result,     // of a holder that is cut off at that moment; comes in right after the next claim
    late_report,     // likewise
    forgotten_claim  // Redis crashes right after a claim, and the next claim may raise the fence to the same number
  };
  /// A node that is cut off until somebody else has its job; one at a time, so that there is somebody else.
  struct Absent {
    int64_t node = 0;
    std::function<void()> write;  // what it wrote, on its way
  };
  void plan_next();
  bool hold_back(int64_t node, const std::vector<std::vector<std::string>>& calls, std::function<void()> deliver);
  void claimed(const std::string& job, const std::string& agent);
  void cut_off(const std::string& job, Absent absent);
  void come_back(const std::string& job);

  Environment& env_;
  Invariants& invariants_;
  std::function<void(double seconds)> crash_redis_;
  std::function<void()> crashed_;
  std::mt19937_64 random_;
  std::vector<Kind> chosen_;
  std::map<Kind, bool> armed_;
  std::map<std::string, Absent> absent_;  // by job
  bool stopped_ = false;
};

}  // namespace foretime::simulation
