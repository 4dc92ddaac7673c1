#pragma once

#include <string>
#include <vector>

namespace foretime {

/// Returns `name` itself, without looking for it, if it has a slash. Otherwise returns the first executable file of
/// that name in the absolute folders of `path`, which are separated by colons; "" if there is none.
std::string find_program(const std::string& name, const std::string& path);
/// Returns find_program(name, PATH of this process), or of /usr/bin and /bin if PATH is not set.
std::string find_program(const std::string& name);

/// Returns pointers to `texts` and a null pointer at the end, as execve takes arguments and environments. They are
/// valid as long as `texts` does not change.
std::vector<char*> exec_pointers(const std::vector<std::string>& texts);

/// Returns the name of this host; "unknown" if it has none.
std::string host_name();

/// Returns an identifier of the running kernel, which changes with each boot. Processes with equal identifiers share
/// the kernel's locks and clocks. "" if the kernel has none.
std::string boot_id();

/// Describes the resources that this process uses.
struct ProcessUsage {
  double memory_mib = 0;   // resident memory; 0 without /proc
  double cpu_seconds = 0;  // CPU time of all threads since the process began
};
/// Returns the resources that this process uses now.
ProcessUsage process_usage();

/// Returns the seconds of a monotonic clock since an arbitrary time.
double steady_seconds();

}  // namespace foretime
