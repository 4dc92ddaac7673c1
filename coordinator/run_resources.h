#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

namespace foretime::coordinator {

/// What a training run took, as resources.json in its directory says it.
struct RunResources {
  double seconds = 0;     // wall time, with that of the attempts that it continued in the same directory
  double memory = 0;      // MiB: peak resident memory of rank 0's process
  double all_memory = 0;  // MiB: the sum of all ranks' peaks
};

/// Measures this process from its construction on: wall time, and the peak of its resident memory (VmHWM), which begins
/// at what is resident then. Where the kernel does not allow that (/proc/self/clear_refs), it is the peak since the
/// process began: a process that trains once does not notice.
class ResourceMeter {
 public:
  ResourceMeter();
  double seconds() const;
  /// MiB; 0 where there is no /proc.
  double peak_memory() const;

 private:
  std::chrono::steady_clock::time_point start_;
};

/// Writes `folder`/resources.json.
void write_run_resources(const std::filesystem::path& folder, const RunResources& resources);
/// Empty where there is none, or a damaged one.
std::optional<RunResources> read_run_resources(const std::filesystem::path& folder);

}  // namespace foretime::coordinator
