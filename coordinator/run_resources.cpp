#include "coordinator/run_resources.h"

#include <cmath>
#include <fstream>
#include <string>

#include <malloc.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "coordinator/checkpoint_store.h"

namespace foretime::coordinator {
namespace {

using Clock = std::chrono::steady_clock;
constexpr const char* kFile = "resources.json";
constexpr double kKibPerMib = 1024;

double rounded(double value) { return std::round(value * 1000) / 1000; }

}  // namespace

ResourceMeter::ResourceMeter() {
  malloc_trim(0);  // what earlier runs of this process have freed is not this one's
  std::ofstream("/proc/self/clear_refs") << "5";
  start_ = Clock::now();
}

double ResourceMeter::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

double ResourceMeter::peak_memory() const {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / kKibPerMib;
  }
  return 0;
}

void write_run_resources(const std::filesystem::path& folder, const RunResources& resources) {
  const nlohmann::json json = {{"seconds", rounded(resources.seconds)},
                               {"memory_mib", rounded(resources.memory)},
                               {"memory_of_all_ranks_mib", rounded(resources.all_memory)}};
  write_file_atomically(folder / kFile, json.dump(2) + "\n");
}

std::optional<RunResources> read_run_resources(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / kFile)) return std::nullopt;
  const auto json = nlohmann::json::parse(coordinator::read_file(folder / kFile), nullptr, false);
  const auto number = [&](const char* key, double& value) {
    const auto found = json.is_object() ? json.find(key) : json.end();
    if (found == json.end() || !found->is_number() || found->get<double>() < 0) return false;
    value = found->get<double>();
    return true;
  };
  RunResources resources;
  if (!number("seconds", resources.seconds) || !number("memory_mib", resources.memory) ||
      !number("memory_of_all_ranks_mib", resources.all_memory))
    return std::nullopt;
  return resources;
}

}  // namespace foretime::coordinator
