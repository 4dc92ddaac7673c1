#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace foretime::cli {

/// What a container or a scheduler allows this process by its control groups; 0: no limit.
struct CgroupLimits {
  int64_t memory = 0;  // bytes
  double cpus = 0;     // processor seconds a second, by quota
};

/// `memberships` is the text of /proc/self/cgroup; `root` is where control groups are mounted, version 1 or 2. A limit
/// of a group above counts as well.
CgroupLimits read_cgroup_limits(const std::string& memberships, const std::filesystem::path& root);

/// What one process of a launch may use.
struct TaskView {
  int rank = 0;
  std::string host;
  std::vector<int> cpus;  // that it may run on, ascending
  int64_t host_cpus = 0;
  CgroupLimits limits;
  std::vector<std::string> gpus;  // PCI addresses of those it sees, or unique names
  int64_t host_gpus = 0;          // that the driver names
  int64_t openmp_threads = 0;     // OMP_NUM_THREADS; 0: not set
};

/// Of this process, but for `rank` and `gpus`.
TaskView view_of_this_task();
std::string to_json(const TaskView& view);
TaskView task_view_from_json(const std::string& text);
/// "h1: CPUs 0-3,8 of 64, 8.0 GiB of memory, GPU 0000:3b:00.0"
std::string describe(const TaskView& view);

/// What Slurm says to a process of one of its jobs.
struct SlurmView {
  std::string job;   // empty: there is no job
  std::string step;  // empty: its batch script, or a shell of salloc
  int tasks = 1, nodes = 1, rank = 0;
  int most_tasks_on_node = 1;
  int cpus_per_task = 0;   // that were asked for; 0: nothing was said
  std::string gpus;        // that this job has on this node, as Slurm words it
  std::string interface_;  // by which tasks become ranks: PMIx, PMI-2; empty: none
};

/// `variable` is getenv, or stands for it.
SlurmView view_of_slurm(const std::function<const char*(const char*)>& variable);
std::string describe(const SlurmView& view);

struct LaunchFinding {
  std::string text;    // what is wrong, and the option that mends it
  bool fatal = false;  // a training that is started like this is refused
};

/// What is wrong with a launch of which these tasks are known: all of them where MPI joins them, else this one.
/// `no_ranks` is comm::why_no_ranks().
std::vector<LaunchFinding> examine_launch(const SlurmView& slurm, const std::vector<TaskView>& tasks,
                                          const std::string& no_ranks);

}  // namespace foretime::cli
