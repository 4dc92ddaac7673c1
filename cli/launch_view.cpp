#include "cli/launch_view.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/machine/machine.h"
#include "base/numbers.h"
#include "base/process.h"
#include "base/read_input.h"
#include "jobs/agent/gpus.h"

namespace foretime::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNoMemoryLimit = int64_t{1} << 60;  // version 1 says a number near 2^63
constexpr int64_t kLeastMemory = int64_t{512} << 20;  // per rank; LibTorch alone takes 170 MiB

template <class Number>
void lower(Number& limit, Number found) {
  if (found > 0 && (limit == 0 || found < limit)) limit = found;
}

void take_limits(const fs::path& group, CgroupLimits& limits) {
  for (const char* file : {"memory.max", "memory.limit_in_bytes"}) {
    const int64_t bytes = parse_number<int64_t>(kernel_text(group / file)).value_or(-1);
    if (bytes > 0 && bytes < kNoMemoryLimit) lower(limits.memory, bytes);
  }
  const auto both = kernel_text(group / "cpu.max");  // "200000 100000", "max 100000"
  const auto blank = both.find(' ');
  const bool second = blank != std::string::npos;
  const auto quota =
      parse_number<int64_t>(second ? both.substr(0, blank) : kernel_text(group / "cpu.cfs_quota_us")).value_or(-1);
  const auto period =
      parse_number<int64_t>(second ? both.substr(blank + 1) : kernel_text(group / "cpu.cfs_period_us")).value_or(-1);
  if (quota > 0 && period > 0) lower(limits.cpus, static_cast<double>(quota) / period);
}

/// "0-3,8"
std::string ranges_of(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string plural(int64_t count, const char* word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

/// The largest of Slurm's "2(x3),1".
int largest_count(std::string_view text) {
  int most = 1;
  while (!text.empty()) {
    most = std::max(most, take_number<int>(text).value_or(0));
    text.remove_prefix(std::min(text.find(','), text.size() - 1) + 1);
  }
  return most;
}

/// Adds problems about resources that tasks of one host share.
void examine_host(const std::string& host, const std::vector<const TaskView*>& tasks, const SlurmView& slurm,
                  std::vector<LaunchFinding>& findings) {
  const auto count = std::ssize(tasks);
  std::set<int> cpus;
  std::set<std::string> gpus;
  bool some_without_gpu = false;
  for (const auto* task : tasks) {
    cpus.insert(task->cpus.begin(), task->cpus.end());
    gpus.insert(task->gpus.begin(), task->gpus.end());
    some_without_gpu = some_without_gpu || task->gpus.empty();
  }
  const auto own_cpus = std::ssize(cpus);
  if (own_cpus > 0 && count > own_cpus) {
    const bool bound = own_cpus < tasks.front()->host_cpus;
    findings.push_back({fmt::format("{}: {} share {}, and wait for each other at every step: {}", host,
                                    plural(count, "rank"), plural(own_cpus, "CPU"),
                                    bound ? "srun --cpus-per-task=1 --cpu-bind=cores, mpirun --bind-to none"
                                    : slurm.job.empty() ? "start fewer on this host"
                                                        : fmt::format("--ntasks-per-node={}", own_cpus))});
  }
  if (gpus.empty()) return;
  const auto own_gpus = std::ssize(gpus);
  if (count > own_gpus) {
    findings.push_back({fmt::format(
        "{}: {} share {}, which NCCL refuses: --ntasks-per-node={}, or --gpus-per-task=1 with a GPU for each", host,
        plural(count, "rank"), plural(own_gpus, "GPU"), own_gpus)});
  } else if (some_without_gpu) {
    findings.push_back(
        {fmt::format("{}: some ranks see a GPU and others none, so all will use CPUs: --gpus-per-task=1", host)});
  }
}

void examine_task(const TaskView& task, const SlurmView& slurm, bool alone_on_host,
                  std::vector<LaunchFinding>& findings) {
  const auto cpus = std::ssize(task.cpus);
  const auto where = fmt::format("rank {} on {}", task.rank, task.host);
  if (!slurm.step.empty() && cpus > 0 && cpus < slurm.cpus_per_task) {
    findings.push_back(
        {fmt::format("{}: {} CPUs for each task were asked for, and {} may be used: "
                     "srun --cpus-per-task={} (since Slurm 22.05 a step does not take it from its job)",
                     where, slurm.cpus_per_task, cpus, slurm.cpus_per_task)});
  } else if (!slurm.step.empty() && alone_on_host && cpus == 1 && task.host_cpus > 1) {
    findings.push_back(
        {fmt::format("{}: 1 of {} CPUs may be used, also by an agent for all of its jobs: "
                     "srun --cpus-per-task={}, or --cpu-bind=none",
                     where, task.host_cpus, task.host_cpus)});
  }
  if (task.limits.cpus > 0 && task.limits.cpus < cpus) {
    const auto whole = std::max<int64_t>(1, task.limits.cpus);
    findings.push_back(
        {fmt::format("{}: {:.1f} of the {} CPUs that are seen may be used, by a quota: "
                     "foretime agent --cpus {}, or trainer.threads={}",
                     where, task.limits.cpus, cpus, whole, whole)});
  }
  if (task.openmp_threads > cpus && cpus > 0)
    findings.push_back({fmt::format("{}: OMP_NUM_THREADS={} on {}: unset it, or set trainer.threads", where,
                                    task.openmp_threads, plural(cpus, "CPU"))});
  if (!slurm.job.empty() && task.gpus.empty()) {
    if (!slurm.gpus.empty()) {
      findings.push_back(
          {fmt::format("{}: Slurm gives this job GPUs ({}), and none can be used: "
                       "is LibTorch built with CUDA? else --gpus-per-task=1",
                       where, slurm.gpus)});
    } else if (task.host_gpus > 0) {
      findings.push_back({fmt::format("{}: the node has {}, and this job none: --gpus-per-task=1", where,
                                      plural(task.host_gpus, "GPU"))});
    }
  }
}

}  // namespace

CgroupLimits read_cgroup_limits(const std::string& memberships, const fs::path& root) {
  CgroupLimits limits;
  std::istringstream lines(memberships);
  for (std::string line; std::getline(lines, line);) {  // 4:memory:/a/b, 0::/a/b
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    fs::path group = fs::path(line.substr(second + 1)).relative_path();
    std::vector<fs::path> mounts;
    if (controllers.empty()) mounts = {root, root / "unified"};
    else if (controllers.find("memory") != std::string::npos || controllers.find("cpu") != std::string::npos)
      mounts = {root / controllers};
    for (const auto& mount : mounts) {
      for (auto at = group;; at = at.parent_path()) {
        take_limits(mount / at, limits);
        if (at.empty()) break;
      }
    }
  }
  return limits;
}

TaskView view_of_this_task() {
  TaskView view;
  view.host = host_name();
  view.cpus = usable_cpus();
  std::error_code unknown;
  for (const auto& entry : fs::directory_iterator("/sys/devices/system/cpu", unknown)) {
    const auto name = entry.path().filename().string();
    if (name.size() > 3 && name.starts_with("cpu") && name[3] >= '0' && name[3] <= '9') ++view.host_cpus;
  }
  view.host_cpus = std::max(view.host_cpus, std::ssize(view.cpus));
  view.limits = read_cgroup_limits(kernel_text("/proc/self/cgroup"), "/sys/fs/cgroup");
  view.host_gpus = jobs::find_gpus().size();
  if (const char* threads = std::getenv("OMP_NUM_THREADS")) {
    std::string_view text = threads;  // 4, or 4,2 for nested regions
    view.openmp_threads = std::max(0, take_number<int>(text).value_or(0));
  }
  return view;
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CgroupLimits, memory, cpus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TaskView, rank, host, cpus, host_cpus, limits, gpus, host_gpus, openmp_threads)

std::string to_json(const TaskView& view) {
  return nlohmann::json(view).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

TaskView task_view_from_json(const std::string& text) { return nlohmann::json::parse(text).get<TaskView>(); }

std::string describe(const TaskView& view) {
  auto text = fmt::format("{}: CPUs {} of {}", view.host, ranges_of(view.cpus), view.host_cpus);
  if (view.limits.cpus > 0) text += fmt::format(" with a quota of {:.1f}", view.limits.cpus);
  if (view.limits.memory > 0) text += fmt::format(", {:.1f} GiB of memory", view.limits.memory / 0x1p30);
  return text + (view.gpus.empty() ? ", no GPU" : fmt::format(", GPU {}", fmt::join(view.gpus, ", ")));
}

SlurmView view_of_slurm(const std::function<const char*(const char*)>& variable) {
  const auto text = [&](const char* name) {
    const char* value = variable(name);
    return std::string(value == nullptr ? "" : value);
  };
  const auto number = [&](const char* name, int otherwise) {
    const char* value = variable(name);
    return value == nullptr ? otherwise : parse_number<int>(value).value_or(otherwise);
  };
  SlurmView view;
  view.job = text("SLURM_JOB_ID");
  if (view.job.empty()) return view;
  view.step = text("SLURM_STEP_ID");
  const bool step = !view.step.empty();
  view.tasks = number(step ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", 1);
  view.nodes = number(step ? "SLURM_STEP_NUM_NODES" : "SLURM_JOB_NUM_NODES", 1);
  view.rank = step ? number("SLURM_PROCID", 0) : 0;
  view.most_tasks_on_node = largest_count(text(step ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE"));
  view.cpus_per_task = number("SLURM_CPUS_PER_TASK", 0);
  for (const char* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE"})
    if (view.gpus.empty()) view.gpus = text(name);
  view.interface_ = variable("PMIX_RANK") != nullptr ? "PMIx" : variable("PMI_RANK") != nullptr ? "PMI-2" : "";
  return view;
}

std::string describe(const SlurmView& view) {
  const auto size = fmt::format("{} on {}", plural(view.tasks, "task"), plural(view.nodes, "node"));
  if (view.step.empty()) return fmt::format("job {} of {}; this is its script or shell, and no step", view.job, size);
  return fmt::format("job {}, step {}: {}, {}", view.job, view.step, size,
                     view.interface_.empty() ? "without MPI" : "joined by " + view.interface_);
}

std::vector<LaunchFinding> examine_launch(const SlurmView& slurm, const std::vector<TaskView>& tasks,
                                          const std::string& no_ranks) {
  std::vector<LaunchFinding> findings;
  if (!no_ranks.empty()) {
    const bool agents = slurm.most_tasks_on_node == 1;
    findings.push_back(
        {(agents ? "agents, one to a node, are started like this, and a training is refused: " : "") + no_ranks,
         /*fatal=*/!agents});
  } else if (slurm.interface_ == "PMI-2") {
    findings.push_back(
        {"this Open MPI is likely to want PMIx: where MPI_Init fails, start the step by srun --mpi=pmix"});
  }
  if (!slurm.job.empty() && slurm.step.empty() && slurm.tasks > 1 && tasks.size() == 1)
    findings.push_back(
        {fmt::format("what is started here without srun or mpirun runs once, on {}: "
                     "a training over all tasks is srun --mpi=pmix foretime train …",
                     tasks.front().host)});
  std::map<std::string, std::vector<const TaskView*>> hosts;
  for (const auto& task : tasks) hosts[task.host].push_back(&task);
  for (const auto& [host, own] : hosts) {
    examine_host(host, own, slurm, findings);
    const int64_t memory = own.front()->limits.memory;
    const auto count = std::ssize(own);
    if (memory > 0 && memory / count < kLeastMemory)
      findings.push_back(
          {fmt::format("{}: {} MiB of memory for each of {}, and LibTorch alone takes 170: --mem, or --mem-per-cpu",
                       host, memory / count >> 20, plural(count, "rank"))});
  }
  std::set<std::string> said;  // once, though all ranks may have it
  for (const auto& task : tasks) {
    const bool alone = hosts[task.host].size() == 1 && slurm.most_tasks_on_node == 1;
    std::vector<LaunchFinding> own;
    examine_task(task, slurm, alone, own);
    for (auto& finding : own)
      if (said.insert(finding.text.substr(finding.text.find(": "))).second) findings.push_back(std::move(finding));
  }
  return findings;
}

std::string mapped_blas(const std::string& maps) {
  std::istringstream lines(maps);
  std::string mkl;
  for (std::string text; std::getline(lines, text);) {
    const auto slash = text.find('/');
    if (slash == std::string::npos) continue;
    const std::string file = text.substr(slash), name = file.substr(file.rfind('/') + 1);
    if (name.starts_with("libcublas") || name.starts_with("libnvblas")) continue;
    if (file.find("blas") != std::string::npos) return file;
    if (mkl.empty() && file.find("mkl") != std::string::npos) mkl = file;
  }
  return mkl;
}

}  // namespace foretime::cli
