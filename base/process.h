#pragma once

#include <string>
#include <vector>

namespace foretime {

/// The file that execvp would find: `name` itself where it has a slash, else the first program of that name in the
/// folders of `path`. Empty where there is none.
std::string find_program(const std::string& name, const std::string& path);
/// In the folders of this process's PATH.
std::string find_program(const std::string& name);

/// Returns pointers to `texts` and a null pointer at the end, as execve takes arguments and environments. They are
/// valid as long as `texts` does not change.
std::vector<char*> exec_pointers(const std::vector<std::string>& texts);

/// "unknown" where it has none.
std::string host_name();

/// Of this boot of this machine: whoever has the same one shares the kernel, which holds locks and clocks. Empty where
/// the kernel does not say.
std::string boot_id();

/// What this process has of its machine.
struct ProcessUsage {
  double memory_mib = 0;   // resident; 0 where there is no /proc
  double cpu_seconds = 0;  // of all of its threads, since it began
};
ProcessUsage process_usage();

/// Seconds of a clock that is never set.
double steady_seconds();

}  // namespace foretime
