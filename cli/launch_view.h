#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace foretime::cli {

/// Holds the limits that a container or scheduler sets for this process by control groups; 0: no limit.
struct CgroupLimits {
  int64_t memory = 0;  // bytes
  double cpus = 0;     // processor seconds per second, by quota
};

/// Reads the limits of control groups, including those of parent groups. `memberships` is the text of
/// /proc/self/cgroup; `root` is the mount point of control groups, version 1 or 2.
CgroupLimits read_cgroup_limits(const std::string& memberships, const std::filesystem::path& root);

/// Describes the resources that one process of a launch may use.
struct TaskView {
  int rank = 0;
  std::string host;
  std::vector<int> cpus;  // allowed CPUs, ascending
  int64_t host_cpus = 0;
  CgroupLimits limits;
  std::vector<std::string> gpus;  // PCI addresses or unique names of the visible ones
  int64_t host_gpus = 0;          // GPUs known to the driver
  int64_t openmp_threads = 0;     // OMP_NUM_THREADS; 0: not set
};

/// Describes this process, except `rank` and `gpus`.
TaskView view_of_this_task();
std::string to_json(const TaskView& view);
TaskView task_view_from_json(const std::string& text);
/// Returns a text such as "h1: CPUs 0-3,8 of 64, 8.0 GiB of memory, GPU 0000:3b:00.0".
std::string describe(const TaskView& view);

/// Holds the facts that Slurm gives to a process of one of its jobs.
struct SlurmView {
  std::string job;   // empty: not in a job
  std::string step;  // empty: the batch script, or a shell of salloc
  int tasks = 1, nodes = 1, rank = 0;
  int most_tasks_on_node = 1;
  int cpus_per_task = 0;   // requested CPUs; 0: not given
  std::string gpus;        // the job's GPUs on this node, in Slurm's words
  std::string interface_;  // interface by which tasks become ranks: PMIx, PMI-2; empty: none
};

/// Reads Slurm's variables; `variable` is getenv or a substitute.
SlurmView view_of_slurm(const std::function<const char*(const char*)>& variable);
std::string describe(const SlurmView& view);

/// Describes a problem of a launch.
struct LaunchFinding {
  std::string text;    // problem, and the option that solves it
  bool fatal = false;  // a training with this problem is refused
};

/// Returns the problems of a launch. `tasks` has all tasks if MPI joins them, otherwise only this one; `no_ranks` is
/// comm::missing_ranks_reason().
std::vector<LaunchFinding> examine_launch(const SlurmView& slurm, const std::vector<TaskView>& tasks,
                                          const std::string& no_ranks);

/// Returns the path of the BLAS library that LibTorch uses on the CPU, from the text of a process's mappings
/// (/proc/self/maps); empty if none is mapped, as with a LibTorch that contains its BLAS. CUDA's libraries of that name
/// are for GPUs.
std::string mapped_blas(const std::string& maps);

}  // namespace foretime::cli
