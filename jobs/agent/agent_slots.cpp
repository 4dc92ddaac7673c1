#include "jobs/agent/agent_slots.h"

#include <algorithm>

#include <fmt/format.h>

#include "jobs/error.h"

namespace foretime::jobs {

Slots::Slots(int64_t cpus, const std::vector<std::string>& gpus) : free_cpus_(cpus), free_gpus_(gpus) {
  std::sort(free_gpus_.begin(), free_gpus_.end());
  const auto twice = std::adjacent_find(free_gpus_.begin(), free_gpus_.end());
  if (twice != free_gpus_.end()) throw JobsError(fmt::format("agent: GPU {} is named twice", *twice));
}

std::optional<std::vector<std::string>> Slots::take(const Resources& resources) {
  if (resources.total_cpus() > free_cpus_ || resources.total_gpus() > free_gpus()) return std::nullopt;
  free_cpus_ -= resources.total_cpus();
  const auto end = free_gpus_.begin() + resources.total_gpus();
  std::vector<std::string> taken(free_gpus_.begin(), end);
  free_gpus_.erase(free_gpus_.begin(), end);
  return taken;
}

void Slots::give_back(const Resources& resources, const std::vector<std::string>& gpus) {
  free_cpus_ += resources.total_cpus();
  free_gpus_.insert(free_gpus_.end(), gpus.begin(), gpus.end());
  std::sort(free_gpus_.begin(), free_gpus_.end());
}

}  // namespace foretime::jobs
