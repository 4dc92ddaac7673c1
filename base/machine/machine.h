#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What a machine is, as its system says it.
namespace foretime {

/// Bytes; absent where the system does not say.
struct CacheSizes {
  std::optional<int64_t> l1, l2, l3, line;  // l1: data; l3: of what shares it
};

/// Times of the clock in MHz; absent where the system does not say.
struct ClockRates {
  std::optional<double> now, base, highest;
};

struct MachineFacts {
  std::string cpu;                                 // model name; "" where the system does not say
  std::optional<int64_t> family, model;            // x86's
  int64_t vector_bytes = 4, vector_registers = 1;  // of the widest vectors of floats that it has; 4 and 1: none known
  int64_t threads = 1, cores = 1;                  // that this process may use
  CacheSizes caches;
  ClockRates clock;
};

/// The CPUs that this process may run on, ascending.
std::vector<int> usable_cpus();

/// Reads proc/cpuinfo and sys/devices/system/cpu below `root` for the CPUs that are named. Nothing that is missing
/// there is an error.
MachineFacts read_machine(const std::filesystem::path& root, const std::vector<int>& cpus);

/// As the C library knows them, which asks the processor: where the kernel says nothing, as in some virtual machines.
CacheSizes caches_of_processor();

/// "48K" in bytes, as the kernel writes sizes; absent where it is no size.
std::optional<int64_t> cache_bytes(std::string_view text);

/// CPU seconds that all CPUs together worked since the machine started, time stolen from it as well, from the text of
/// /proc/stat and ticks a second; absent where it has no such line.
std::optional<double> busy_seconds(std::string_view proc_stat, double ticks_a_second);

/// Returns how many processes the kernel has killed for want of memory in the cgroup (version 1 or 2) of this process,
/// from proc/self/cgroup and sys/fs/cgroup below `root`; absent where they do not say.
std::optional<int64_t> oom_kills(const std::filesystem::path& root);

/// Bytes of memory that can be had without swapping, from the text of /proc/meminfo.
std::optional<int64_t> available_memory(std::string_view meminfo);

}  // namespace foretime
