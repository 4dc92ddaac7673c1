#include "cli/launch_view.h"

#include <filesystem>
#include <map>

#include <gmock/gmock.h>

#include "tests/support/golden.h"
#include "tests/support/scratch.h"

namespace foretime::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Variables = std::map<std::string, std::string>;

SlurmView slurm_of(const Variables& variables) {
  return view_of_slurm([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

/// What srun tells the tasks of a step of two nodes with two tasks each.
Variables step_of_four() {
  return {{"SLURM_JOB_ID", "7"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NUM_TASKS", "4"},
          {"SLURM_STEP_NUM_NODES", "2"},
          {"SLURM_PROCID", "0"},
          {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
          {"PMIX_RANK", "0"}};
}

TaskView task(int rank, const std::string& host, std::vector<int> cpus, std::vector<std::string> gpus = {}) {
  return {.rank = rank, .host = host, .cpus = std::move(cpus), .host_cpus = 8, .limits = {}, .gpus = std::move(gpus)};
}

std::vector<TaskView> four(const std::vector<std::vector<std::string>>& gpus) {
  return {task(0, "h1", {0, 1}, gpus[0]), task(1, "h1", {2, 3}, gpus[1]), task(2, "h2", {0, 1}, gpus[2]),
          task(3, "h2", {2, 3}, gpus[3])};
}

/// The only finding.
std::string finding(const SlurmView& slurm, const std::vector<TaskView>& tasks, const std::string& no_ranks = "") {
  const auto found = examine_launch(slurm, tasks, no_ranks);
  EXPECT_THAT(found, SizeIs(1));
  return found.empty() ? "" : found.front().text;
}

TEST(LaunchView, AGoodLaunchHasNoFindings) {
  const auto slurm = slurm_of(step_of_four());
  EXPECT_MESSAGE(describe(slurm));
  EXPECT_THAT(examine_launch(slurm, four({{}, {}, {}, {}}), ""), IsEmpty());
  EXPECT_THAT(examine_launch(slurm, four({{"a"}, {"b"}, {"a"}, {"b"}}), ""), IsEmpty()) << "a GPU for each task";
  EXPECT_THAT(examine_launch(slurm, four({{"a", "b"}, {"a", "b"}, {"a", "b"}, {"a", "b"}}), ""), IsEmpty())
      << "each sees both, and takes its own";
  EXPECT_THAT(examine_launch(slurm_of({}), {task(0, "laptop", {0, 1, 2, 3, 4, 5, 6, 7})}, ""), IsEmpty());
}

// Promise doctor/tasks-alone
TEST(LaunchView, TasksWithoutMpiAreFatalWhereTheyCannotBeAgents) {
  auto variables = step_of_four();
  variables.erase("PMIX_RANK");
  auto found = examine_launch(slurm_of(variables), {task(0, "h1", {0, 1})}, "alone");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_TRUE(found.front().fatal);
  EXPECT_THAT(describe(slurm_of(variables)), HasSubstr("without MPI"));
  variables["SLURM_STEP_TASKS_PER_NODE"] = "1(x4)";
  found = examine_launch(slurm_of(variables), {task(0, "h1", {0, 1})}, "alone");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_FALSE(found.front().fatal);
  EXPECT_THAT(found.front().text, AllOf(HasSubstr("agents"), HasSubstr("alone")));
}

TEST(LaunchView, TheMostTasksOfANodeAreFoundInSlurmsList) {
  auto variables = step_of_four();
  for (const auto& [list, most] : std::map<std::string, int>{{"1(x3)", 1}, {"1(x2),4", 4}, {"3,1", 3}, {"12", 12}}) {
    variables["SLURM_STEP_TASKS_PER_NODE"] = list;
    EXPECT_EQ(slurm_of(variables).most_tasks_on_node, most) << list;
  }
}

TEST(LaunchView, AScriptOrShellIsNoTask) {
  const auto slurm = slurm_of({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_NUM_NODES", "2"}});
  EXPECT_MESSAGE(describe(slurm));
  EXPECT_MESSAGE(finding(slurm, {task(0, "h1", {0, 1})}), "srun --mpi=pmix");
}

TEST(LaunchView, RanksThatAreBoundToTheSameCpuAreFound) {
  EXPECT_THAT(finding(slurm_of(step_of_four()), {task(0, "h1", {0}), task(1, "h1", {0})}),
              AllOf(HasSubstr("h1: 2 ranks share 1 CPU,"), HasSubstr("--cpu-bind")));
  auto tasks = std::vector{task(0, "h1", {0, 1}), task(1, "h1", {0, 1}), task(2, "h1", {0, 1})};
  for (auto& each : tasks) each.host_cpus = 2;
  EXPECT_THAT(finding(slurm_of(step_of_four()), tasks), HasSubstr("--ntasks-per-node=2"));
}

// Promise doctor/cpus
TEST(LaunchView, CpusThatAStepDoesNotTakeFromItsJobAreFound) {
  auto variables = step_of_four();
  variables["SLURM_CPUS_PER_TASK"] = "4";
  EXPECT_MESSAGE(finding(slurm_of(variables), four({{}, {}, {}, {}})), "--cpus-per-task=4");
  variables = step_of_four();
  variables["SLURM_STEP_TASKS_PER_NODE"] = "1(x4)";
  EXPECT_THAT(finding(slurm_of(variables), {task(0, "h1", {3})}), AllOf(HasSubstr("1 of 8 CPUs"), HasSubstr("agent")));
}

// Promise doctor/gpus: GPUs that ranks share, lack, or cannot use
TEST(LaunchView, GpusThatRanksShareOrLackAreFound) {
  const auto slurm = slurm_of(step_of_four());
  EXPECT_THAT(finding(slurm, {task(0, "h1", {0}, {"a"}), task(1, "h1", {1}, {"a"})}),
              AllOf(HasSubstr("2 ranks share 1 GPU"), HasSubstr("--ntasks-per-node=1")));
  EXPECT_THAT(finding(slurm, {task(0, "h1", {0}, {"a", "b"}), task(1, "h1", {1})}), HasSubstr("--gpus-per-task=1"));
  auto variables = step_of_four();
  variables["SLURM_STEP_GPUS"] = "0,1";
  EXPECT_THAT(finding(slurm_of(variables), {task(0, "h1", {0, 1})}), AllOf(HasSubstr("(0,1)"), HasSubstr("CUDA")));
  auto beside = task(0, "h1", {0, 1});
  beside.host_gpus = 4;
  EXPECT_MESSAGE(finding(slurm, {beside}), "--gpus-per-task=1");
}

// Promise doctor/limits: limits of memory and of processor time by control groups
TEST(LaunchView, LimitsOfMemoryAndOfProcessorTimeAreFound) {
  auto tasks = std::vector{task(0, "h1", {0, 1, 2, 3}), task(1, "h1", {4, 5, 6, 7})};
  for (auto& each : tasks) each.limits.memory = int64_t{600} << 20;
  EXPECT_MESSAGE(finding({}, tasks), "--mem");
  auto container = task(0, "pod", {0, 1, 2, 3, 4, 5, 6, 7});
  container.limits.cpus = 2.5;
  EXPECT_THAT(finding({}, {container}), AllOf(HasSubstr("2.5 of the 8 CPUs"), HasSubstr("--cpus 2")));
  auto many = task(0, "h1", {0, 1});
  many.openmp_threads = 16;
  EXPECT_THAT(finding({}, {many}), HasSubstr("OMP_NUM_THREADS=16 on 2 CPUs"));
}

TEST(LaunchView, WhatAllRanksHaveIsSaidOnce) {
  std::vector<TaskView> tasks;
  for (int rank = 0; rank < 4; ++rank) {
    tasks.push_back(task(rank, "h1", {2 * rank, 2 * rank + 1}));
    tasks.back().openmp_threads = 8;
  }
  EXPECT_THAT(finding({}, tasks), HasSubstr("OMP_NUM_THREADS=8"));
}

TEST(LaunchView, TravelsBetweenRanks) {
  auto view = task(3, "h2", {0, 1, 2, 8}, {"0000:3b:00.0"});
  view.limits = {int64_t{8} << 30, 2.5};
  view.openmp_threads = 2;
  EXPECT_EQ(describe(task_view_from_json(to_json(view))), describe(view));
  EXPECT_MESSAGE(describe(view), "h2");
  EXPECT_EQ(task_view_from_json(to_json(view)).openmp_threads, 2);
}

class CgroupFiles : public testing::ScratchTest {
 protected:
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((folder_ / path).parent_path());
    scratch_.write(path, text);
  }
  CgroupLimits limits(const std::string& memberships) { return read_cgroup_limits(memberships, folder_); }
};

TEST_F(CgroupFiles, TheLeastLimitOfAllGroupsAboveCounts) {
  write("slurm/job_7/memory.max", "1073741824\n");
  write("slurm/job_7/cpu.max", "150000 100000\n");
  write("slurm/job_7/step_0/memory.max", "2147483648\n");
  write("slurm/job_7/step_0/cpu.max", "max 100000\n");
  const auto found = limits("0::/slurm/job_7/step_0\n");
  EXPECT_EQ(found.memory, 1073741824);
  EXPECT_DOUBLE_EQ(found.cpus, 1.5);
}

TEST_F(CgroupFiles, VersionOneHasAMountForEachController) {
  write("memory/slurm/job_7/memory.limit_in_bytes", "536870912\n");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("cpu,cpuacct/slurm/cpu.cfs_quota_us", "200000\n");
  write("cpu,cpuacct/slurm/cpu.cfs_period_us", "100000\n");
  const auto found = limits("5:cpu,cpuacct:/slurm\n4:memory:/slurm/job_7\n2:devices:/\n0::/\n");
  EXPECT_EQ(found.memory, 536870912);
  EXPECT_DOUBLE_EQ(found.cpus, 2.0);
}

TEST_F(CgroupFiles, NoLimitIsNone) {
  write("memory.max", "max\n");
  write("cpu/cpu.cfs_quota_us", "-1\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  const auto found = limits("1:cpu:/\n0::/gone\nnonsense\n");
  EXPECT_EQ(found.memory, 0);
  EXPECT_EQ(found.cpus, 0);
}

}  // namespace
}  // namespace foretime::cli
