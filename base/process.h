#pragma once

#include <string>
#include <vector>

namespace foretime {

/// Returns the file that execvp would execute: `name` if it contains a slash, else the first program of that name in
/// the folders of `path`; "" if there is none.
std::string find_program(const std::string& name, const std::string& path);
/// Returns the program `name` in the folders of this process's PATH; "" if there is none.
std::string find_program(const std::string& name);

/// Returns pointers to `texts` and a null pointer at the end, as execve takes arguments and environments. They are
/// valid as long as `texts` does not change.
std::vector<char*> exec_pointers(const std::vector<std::string>& texts);

/// Returns the name of this host; "unknown" if it has none.
std::string host_name();

/// Returns an identifier of this boot of this machine. Processes with equal ones share a kernel, and so its locks and
/// clocks. "" if the kernel has none.
std::string boot_id();

/// Describes the resources that this process uses.
struct ProcessUsage {
  double memory_mib = 0;   // resident memory; 0 without /proc
  double cpu_seconds = 0;  // CPU time of all threads since the process began
};
/// Returns the resources that this process uses now.
ProcessUsage process_usage();

/// Returns the seconds of a monotonic clock.
double steady_seconds();

}  // namespace foretime
