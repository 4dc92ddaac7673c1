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
  std::optional<int64_t> l1, l2;    // data cache of the first level; cache of the second level
  std::optional<int64_t> l3, line;  // cache of the third level, which cores share; length of a cache line
};

/// Holds clock rates in MHz; nullopt if the system does not report them.
struct ClockRates {
  std::optional<double> now, base, highest;  // now: when it was read; highest: in short bursts
};

struct MachineFacts {
  std::string cpu;                                 // model name; "" if the system does not report it
  std::optional<int64_t> family, model;            // numbers of x86 processors; nullopt on others
  int64_t vector_bytes = 4, vector_registers = 1;  // bytes and number of the widest vector registers; 4 and 1: unknown
  int64_t threads = 1, cores = 1;                  // numbers of given CPUs (hardware threads) and of their cores
  CacheSizes caches;
  ClockRates clock;
};

/// Returns the numbers of the CPUs that this process may run on, ascending; {0} if the system does not report them.
std::vector<int> usable_cpus();

/// Reads proc/cpuinfo and sys/devices/system/cpu below `root`: threads and cores of all CPUs of `cpus`, everything else
/// of the first one. Missing files and fields are no errors and leave the defaults of MachineFacts.
MachineFacts read_machine(const std::filesystem::path& root, const std::vector<int>& cpus);

/// Returns the cache sizes that the C library reads from the processor, for kernels that do not report them.
CacheSizes caches_of_processor();

/// Returns the bytes of a size as the kernel writes it, with K, M or no unit ("48K"); nullopt if it is no size above 0.
std::optional<int64_t> cache_bytes(std::string_view text);

/// Returns the seconds, summed over all CPUs, that the machine was busy since it started: all but idle time and waiting
/// for I/O, with the time that other virtual machines took. `proc_stat` is the text of /proc/stat. Returns nullopt if
/// the text does not begin with the line of all CPUs.
std::optional<double> busy_seconds(std::string_view proc_stat, double ticks_a_second);

/// Returns the number of processes that the kernel has killed for lack of memory in the cgroup (version 1 or 2) of this
/// process, from proc/self/cgroup and sys/fs/cgroup below `root`; nullopt if these files do not report it.
std::optional<int64_t> oom_kills(const std::filesystem::path& root);

/// Returns the available memory in bytes, without swapping, from the text of /proc/meminfo; nullopt if not in it.
std::optional<int64_t> available_memory(std::string_view meminfo);

}  // namespace foretime
