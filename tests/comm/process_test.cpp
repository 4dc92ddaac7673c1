#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <sys/wait.h>

/// Failures of whole processes: rank_fault.cpp under mpirun, its output, its exit code, and that it ends at once.
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  std::string output;
  int code = -1;
  double seconds = 0;
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
  const auto start = std::chrono::steady_clock::now();
  const std::string command = launcher + " " FORETIME_RANK_FAULT " " + how + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> part;
  while (const size_t got = fread(part.data(), 1, part.size(), pipe)) outcome.output.append(part.data(), got);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

Outcome run_ranks(int ranks, const std::string& how) {
  return run(std::string(FORETIME_MPIEXEC) + " -n " + std::to_string(ranks), how);
}

// Far below the 60 s that the late rank sleeps and the 30 s time limit of the runs that must not wait for it.
constexpr double kAtOnce = 25;

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
       AllOf(ContainsRegex("all_reduce #[0-9]+ did not finish within 1.0 s; late: rank 1 .no answer."),
             Not(HasSubstr("rank 0 (no answer)")), Not(HasSubstr("rank 2 (no answer)")))},
      {"slow", 2, 0},  // within the time limit
      {"works", 3, 0},
      {"works_and_stops", 3, 5, ContainsRegex("did not finish within 1.0 s; late: rank 1 .no answer.")},
      {"astray", 2, 5, ContainsRegex("no rank is late: rank (1 waits in barrier|0 waits in all_reduce) #")},
      {"throws", 3, 3, HasSubstr("rank 1 ended: graph 17 is broken")},
      {"agree", 2, 3},  // ranks that fail together keep their code
      {"leaves", 2, 5, HasSubstr("end of run #")},
      {"killed", 3, ::testing::Ne(0), AllOf(HasSubstr("rank 1"), HasSubstr("signal 9"))},
      {"preempted", 2, 75},
  };
  for (const auto& [how, ranks, code, output] : cases) {
    const auto outcome = run_ranks(ranks, how);
    EXPECT_THAT(outcome.code, code) << how << ": " << outcome.output;
    EXPECT_THAT(outcome.output, output) << how;
    EXPECT_LT(outcome.seconds, kAtOnce) << how;
  }
}

TEST(Process, NothingThatMpiUsesIsFreedWhileAPeerMayCome) {
  const std::vector<std::string> cases = {"late_gather", "late_pieces", "late_root",
                                          "late_reader", "late_sum",    "late_stages"};
  std::vector<std::future<Outcome>> outcomes;  // they mostly sleep
  for (const auto& how : cases)
    outcomes.push_back(std::async(std::launch::async, [&how] { return run_ranks(2, how); }));
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& how = cases[i];
    const auto outcome = outcomes[i].get();
    EXPECT_EQ(outcome.code, 5) << how << ": " << outcome.output;
    EXPECT_THAT(outcome.output, AllOf(ContainsRegex("rank 0: .*did not finish within 1.0 s"),
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
    EXPECT_LT(outcome.seconds, kAtOnce);
  }
}

}  // namespace
