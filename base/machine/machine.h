#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The properties of a machine, as reported by its system.
namespace foretime {

/// Holds cache sizes in bytes; nullopt if the system does not report them.
struct CacheSizes {
  std::optional<int64_t> l1, l2, l3, line;  // l1: data cache; l3: one of those shared by cores
};

/// Holds clock rates in MHz; nullopt if the system does not report them.
struct ClockRates {
  std::optional<double> now, base, highest;
};

struct MachineFacts {
  std::string cpu;                                 // model name; "" if the system does not report it
  std::optional<int64_t> family, model;            // numbers of x86 processors
  int64_t vector_bytes = 4, vector_registers = 1;  // bytes and number of the widest vector registers; 4 and 1: unknown
  int64_t threads = 1, cores = 1;                  // available to this process
  CacheSizes caches;
  ClockRates clock;
};

/// Returns the CPUs that this process may run on, ascending.
std::vector<int> usable_cpus();

/// Reads proc/cpuinfo and sys/devices/system/cpu below `root` for the CPUs `cpus`. Missing files and fields are no
/// errors.
MachineFacts read_machine(const std::filesystem::path& root, const std::vector<int>& cpus);

/// Returns the cache sizes that the C library reads from the processor, for kernels that do not report them, as in some
/// virtual machines.
CacheSizes caches_of_processor();

/// Returns the bytes of a size as the kernel writes it ("48K"); nullopt if it is no size.
std::optional<int64_t> cache_bytes(std::string_view text);

/// Returns the CPU seconds that all CPUs worked since the machine started, including stolen time, from the text of
/// /proc/stat and ticks per second; nullopt if it has no such line.
std::optional<double> busy_seconds(std::string_view proc_stat, double ticks_a_second);

/// Returns the number of processes that the kernel has killed for lack of memory in the cgroup (version 1 or 2) of this
/// process, from proc/self/cgroup and sys/fs/cgroup below `root`; nullopt if they do not report it.
std::optional<int64_t> oom_kills(const std::filesystem::path& root);

/// Returns the bytes of memory that are available without swapping, from the text of /proc/meminfo.
std::optional<int64_t> available_memory(std::string_view meminfo);

}  // namespace foretime
