#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace foretime::cli {

/// Holds the limits that a container or scheduler sets for this process by control groups; 0: no limit.
struct CgroupLimits {
  int64_t memory = 0;  // limit of main memory in bytes
  double cpus = 0;     // limit of processor time, in seconds per second
};

/// Returns the smallest limits of the control groups that a process is in, and of their parents. `memberships` is the
/// text of /proc/PID/cgroup; `root` is the mount point of control groups, version 1 or 2.
CgroupLimits read_cgroup_limits(const std::string& memberships, const std::filesystem::path& root);

/// Describes the resources that one process of a launch may use.
struct TaskView {
  int rank = 0;
  std::string host;
  std::vector<int> cpus;  // allowed CPUs, ascending
  int64_t host_cpus = 0;  // CPUs of the host, allowed or not
  CgroupLimits limits;
  std::vector<std::string> gpus;  // visible GPUs: PCI addresses, or other texts that differ between GPUs
  int64_t host_gpus = 0;          // GPUs of the host that the driver knows
  int64_t openmp_threads = 0;     // OMP_NUM_THREADS; 0: not set
};

/// Returns the resources of this process; `rank` and `gpus` are left for the caller to set.
TaskView view_of_this_task();
std::string to_json(const TaskView& view);
/// Parses the result of to_json. Throws nlohmann::json::exception for other text.
TaskView task_view_from_json(const std::string& text);
/// Returns a text such as "h1: CPUs 0-3,8 of 64, 8.0 GiB of memory, GPU 0000:3b:00.0"; unset limits are left out.
std::string describe(const TaskView& view);

/// Holds the facts that Slurm gives to a process of one of its jobs.
struct SlurmView {
  std::string job;                     // job id; empty: the process is not in a job
  std::string step;                    // step id; empty: the process is the batch script, or a shell of salloc
  int tasks = 1, nodes = 1, rank = 0;  // numbers of tasks and nodes of the step, or else of the job; rank in the step
  int most_tasks_on_node = 1;          // largest number of tasks on one node
  int cpus_per_task = 0;               // requested CPUs for each task; 0: not given
  std::string gpus;                    // GPUs of the job on this node, as Slurm writes them
  std::string interface_;              // PMIx or PMI-2, by which tasks become ranks; empty: none
};

/// Returns the facts in Slurm's variables; `variable` is getenv or a substitute.
SlurmView view_of_slurm(const std::function<const char*(const char*)>& variable);
/// Returns a text such as "job 12, step 0: 4 tasks on 2 nodes, joined by PMIx".
std::string describe(const SlurmView& view);

/// Describes a problem of a launch.
struct LaunchFinding {
  std::string text;    // problem, and the option that solves it
  bool fatal = false;  // true: a training is refused because of it
};

/// Returns the problems of a launch. `tasks` has all tasks if MPI joins them, otherwise only this one; `no_ranks` is
/// comm::missing_ranks_reason().
std::vector<LaunchFinding> examine_launch(const SlurmView& slurm, const std::vector<TaskView>& tasks,
                                          const std::string& no_ranks);

/// Returns the path of the BLAS library that LibTorch uses on the CPU: the first mapped file with "blas" in its path,
/// else the first with "mkl". `maps` is the text of /proc/self/maps. Returns "" if there is neither, as with a LibTorch
/// that contains its BLAS. cuBLAS and NVBLAS, which are for GPUs, do not count.
std::string mapped_blas(const std::string& maps);

}  // namespace foretime::cli
