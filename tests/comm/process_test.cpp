#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <semaphore>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <sys/wait.h>

#include "tests/support/scratch.h"

/// Failures of whole processes: rank_fault.cpp under mpirun, its output, its exit code, and that it ends.
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  std::string output;
  int code = -1;
};

void prepare_environment() {
  // Ranks may be more than cores, and root may start them.
  for (const char* name :
       {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"}) {
    setenv(name, "1", 1);
  }
  setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
  setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 1);  // Open MPI 5
  setenv("PRTE_MCA_hwloc_default_binding_policy", "none", 1);
  setenv("OMPI_MCA_btl", "^tcp", 1);  // which says at length, in Open MPI 5, where it finds no interfaces that fit
  setenv("OMP_NUM_THREADS", "1", 1);
}

Outcome run(const std::string& launcher, const std::string& how) {
  static std::once_flag prepared;
  std::call_once(prepared, prepare_environment);
  Outcome outcome;
  const std::string command = launcher + " " FORETIME_RANK_FAULT " " + how + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> part;
  while (const size_t got = fread(part.data(), 1, part.size(), pipe)) outcome.output.append(part.data(), got);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

Outcome run_ranks(int ranks, const std::string& how) {
  return run(std::string(FORETIME_MPIEXEC) + " -n " + std::to_string(ranks), how);
}

/// Runs `count` of them, some at once, since they mostly sleep.
std::vector<Outcome> run_all(size_t count, const std::function<Outcome(size_t)>& run_one) {
  std::counting_semaphore<> places(6);
  std::vector<std::future<Outcome>> outcomes;
  for (size_t i = 0; i < count; ++i)
    outcomes.push_back(std::async(std::launch::async, [&, i] {
      places.acquire();
      auto outcome = run_one(i);
      places.release();
      return outcome;
    }));
  std::vector<Outcome> found;
  for (auto& outcome : outcomes) found.push_back(outcome.get());
  return found;
}

/// A rank that is late sleeps for hours, so a run that waits for it without need does not end.
TEST(Process, EndsAsItsRanksDo) {
  struct Case {
    std::string how;
    int ranks;
    ::testing::Matcher<int> code;
    ::testing::Matcher<std::string> output = ::testing::_;
  };
  const std::vector<Case> cases = {
      {"fine", 1, 0, ""},
      {"fine", 2, 0, ""},
      {"fine", 3, 0, ""},
      {"pieces", 3, 0},  // long data travel in pieces
      {"hosts", 4, 0},   // and first within what are taken for hosts
      {"hosts", 6, 0},
      {"late", 3, 5,
       AllOf(ContainsRegex("all_reduce #[0-9]+ did not finish within 10.0 s; late: rank 1 .no answer."),
             Not(HasSubstr("rank 0 (no answer)")), Not(HasSubstr("rank 2 (no answer)")))},
      {"slow", 2, 0},  // within the time limit
      {"works", 3, 0},
      {"works_and_stops", 3, 5, ContainsRegex("did not finish within 10.0 s; late: rank 1 .no answer.")},
      {"astray", 2, 5, ContainsRegex("no rank is late: rank (1 waits in barrier|0 waits in all_reduce) #")},
      {"throws", 3, 3, HasSubstr("rank 1 ended: graph 17 is broken")},
      {"agree", 2, 3},  // ranks that fail together keep their code
      {"leaves", 2, 5, HasSubstr("end of run #")},
      {"killed", 3, ::testing::Ne(0), AllOf(HasSubstr("rank 1"), HasSubstr("signal 9"))},
      {"preempted", 2, 75},
  };
  const auto outcomes = run_all(cases.size(), [&](size_t i) { return run_ranks(cases[i].ranks, cases[i].how); });
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_THAT(outcomes[i].code, cases[i].code) << cases[i].how << ": " << outcomes[i].output;
    EXPECT_THAT(outcomes[i].output, cases[i].output) << cases[i].how;
  }
}

TEST(Process, NothingThatMpiUsesIsFreedWhileAPeerMayCome) {
  const std::vector<std::string> cases = {"late_gather", "late_pieces", "late_root",
                                          "late_reader", "late_sum",    "late_stages"};
  const foretime::testing::Scratch scratch;
  const auto outcomes = run_all(cases.size(), [&](size_t i) {
    const auto folder = scratch.path() / cases[i];
    std::filesystem::create_directory(folder);
    return run_ranks(2, cases[i] + " " + folder.string());
  });
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& how = cases[i];
    const auto& outcome = outcomes[i];
    EXPECT_EQ(outcome.code, 5) << how << ": " << outcome.output;
    EXPECT_THAT(outcome.output, AllOf(ContainsRegex("rank 0: .*did not finish within 10.0 s"),
                                      Not(HasSubstr("after they had been freed")),
                                      Not(HasSubstr("is not what was sent")), Not(HasSubstr("has not ended"))))
        << how;
  }
}

TEST(Process, NcclWithoutWhatItNeedsSaysSo) {
  for (const auto* launcher : {"CUDA_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES= " FORETIME_MPIEXEC " -n 2"}) {
    const auto outcome = run(launcher, "nccl");
    EXPECT_EQ(outcome.code, 4) << outcome.output;
    EXPECT_THAT(outcome.output,
                AllOf(HasSubstr("backend nccl: "), AnyOf(HasSubstr("no GPU"), HasSubstr("this build has no NCCL")),
                      HasSubstr("backend mpi")));
  }
}

}  // namespace
