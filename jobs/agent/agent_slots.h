#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "jobs/queue/job.h"

namespace foretime::jobs {

/// The CPUs and GPUs of an agent. A GPU belongs to one job at a time.
class Slots {
 public:
  Slots(int64_t cpus, const std::vector<std::string>& gpus);
  int64_t free_cpus() const { return free_cpus_; }
  int64_t free_gpus() const { return static_cast<int64_t>(free_gpus_.size()); }
  /// The job's GPUs; empty where it does not fit.
  std::optional<std::vector<std::string>> take(const Resources& resources);
  void give_back(const Resources& resources, const std::vector<std::string>& gpus);

 private:
  int64_t free_cpus_;
  std::vector<std::string> free_gpus_;
};

}  // namespace foretime::jobs
