#include <gmock/gmock.h>

#include "jobs/agent/agent_options.h"
#include "jobs/error.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime::jobs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> kCommand = {"/opt/foretime", "train", "a b.yaml"};
const Resources kOne{1, 2, 0}, kFour{4, 2, 1};

std::string refusal(const std::string& text) {
  return testing::message_of<JobsError>([&] { const Launcher launcher(text); });
}

TEST(Launcher, OneRankIsStartedDirectlyAndMoreByMpirun) {
  EXPECT_EQ(Launcher("auto").arguments(kOne, kCommand), kCommand);
  EXPECT_EQ(Launcher("direct").arguments(kOne, kCommand), kCommand);
  const auto words = Launcher("auto").arguments(kFour, kCommand);
  EXPECT_EQ(words, Launcher("mpirun").arguments(kFour, kCommand));
  ASSERT_GE(words.size(), 3U);
  EXPECT_THAT(std::vector<std::string>(words.begin(), words.begin() + 3), ElementsAre("mpirun", "-n", "4"));
  EXPECT_THAT(std::vector<std::string>(words.end() - 3, words.end()),
              ElementsAre("/opt/foretime", "train", "a b.yaml"));
  EXPECT_THAT(Launcher("srun", /*in_step=*/true).arguments(kFour, {"c"}),
              ElementsAre("srun", "--mpi=pmix", "--ntasks=4", "--cpus-per-task=2", "--gpus-per-task=1", "--exact",
                          "--overlap", "--kill-on-bad-exit=0", "--wait=60", "c"));
  EXPECT_THAT(Launcher("srun", /*in_step=*/false).arguments(kFour, {"c"}),
              ElementsAre("srun", "--mpi=pmix", "--ntasks=4", "--cpus-per-task=2", "--gpus-per-task=1", "--exact",
                          "--mem=0", "--kill-on-bad-exit=0", "--wait=60", "c"));
  EXPECT_THAT(Launcher("srun").arguments(kOne, {"c"}), Not(Contains(HasSubstr("gpus"))));
}

// Promise cluster-agents/job-apart: a job sees nothing of the step or `mpirun` that its agent is in
TEST(Launcher, AJobIsNoMemberOfTheStepThatItsAgentIsIn) {
  std::vector<std::string> given = {"SLURM_CONF=/etc/slurm.conf",
                                    "SLURM_JOB_ID=7",
                                    "SLURM_JOB_NODELIST=n[1-2]",
                                    "SLURM_STEP_NUM_TASKS=2",
                                    "SLURM_PROCID=1",
                                    "SLURM_NTASKS=2",
                                    "SLURMD_NODENAME=n2",
                                    "PMIX_RANK=1",
                                    "PMI_SIZE=2",
                                    "OMPI_COMM_WORLD_SIZE=2",
                                    "OMPI_MCA_orte_hnp_uri=1",
                                    "OMPI_MCA_btl_tcp_if_include=eth0",
                                    "OMP_NUM_THREADS=2",
                                    "PATH=/bin"};
  std::vector<char*> environment;
  for (auto& entry : given) environment.push_back(entry.data());
  environment.push_back(nullptr);
  const auto always = {
      "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",         "SLURM_NTASKS", "SLURMD_NODENAME", "PMIX_RANK", "PMI_SIZE",
      "OMPI_COMM_WORLD_SIZE", "OMPI_MCA_orte_hnp_uri"};
  const std::vector<std::string> of_the_step(always.begin(), always.end());
  EXPECT_EQ(Launcher("srun").variables_of_outer_launch(environment.data()), of_the_step);
  auto all = of_the_step;
  all.insert(all.begin(), {"SLURM_JOB_ID", "SLURM_JOB_NODELIST"});
  for (const char* launcher : {"auto", "direct", "mpirun"})
    EXPECT_EQ(Launcher(launcher).variables_of_outer_launch(environment.data()), all) << launcher;
}

TEST(Launcher, JobsRunOnTheHostsThatTheAgentSays) {
  const Launcher launcher("auto", /*in_step=*/false, /*over_hosts=*/true);
  const auto words = launcher.arguments(kFour, kCommand, "h1:3,h2:1");
  EXPECT_THAT(std::vector<std::string>(words.begin(), words.begin() + 5),
              ElementsAre("mpirun", "--host", "h1:3,h2:1", "-n", "4"));
  EXPECT_EQ(launcher.arguments(kOne, kCommand, "h2:1")[2], "h2:1") << "one rank runs there as well";
  EXPECT_TRUE(launcher.may_leave_host());
  const Launcher own("run -n{ranks} -w={hosts} {command}", false, true);
  EXPECT_THAT(own.arguments(kFour, {"c"}, "h1:4"), ElementsAre("run", "-n4", "-w=h1:4", "c"));
  for (const auto* text : {"direct", "srun", "run {command}"})
    EXPECT_THAT(foretime::testing::message_of<JobsError>([&] { const Launcher none(text, false, true); }),
                HasSubstr("no {hosts}"));
  EXPECT_MESSAGE(refusal("mpirun --host {hosts} {command}"));
}

// Promise lost-hosts/silent
TEST(Slots, RanksFillTheHostsThatAnswer) {
  Slots slots(8, {}, {{"h1", 3}, {"h2", 4}, {"h3", 1}});
  EXPECT_EQ(slots.free_cpus(), 0) << "nobody has asked yet";
  slots.set_silent({});
  EXPECT_EQ(slots.free_cpus(), 8);
  EXPECT_FALSE(slots.take({.ranks = 4, .cpus = 2})) << "a rank is on one host";
  const auto first = slots.take({.ranks = 3, .cpus = 2}).value();
  EXPECT_EQ(first.hosts, (std::vector<AgentHost>{{"h1", 2}, {"h2", 4}}));
  EXPECT_EQ(slots.free_of_hosts(), (std::vector<int64_t>{1, 0, 1}));
  slots.set_silent({"h1"});
  EXPECT_EQ(slots.free_of_hosts(), (std::vector<int64_t>{0, 1}));
  slots.give_back(first);
  EXPECT_EQ(slots.free_cpus(), 5);
  EXPECT_EQ(slots.take({.ranks = 5, .cpus = 1})->hosts, (std::vector<AgentHost>{{"h2", 4}, {"h3", 1}}));
  slots.set_silent({});
  EXPECT_EQ(slots.free_of_hosts(), (std::vector<int64_t>{3, 0, 0}));
  Slots own(4, {"0", "1"});
  EXPECT_TRUE(own.free_of_hosts().empty());
  const auto both = own.take({.ranks = 2, .cpus = 2, .gpus = 1}).value();
  EXPECT_EQ(both.gpus.size(), 2U);
  EXPECT_EQ(own.free_cpus(), 0);
  own.give_back(both);
  EXPECT_EQ(own.free_gpus(), 2);
}

TEST(Launcher, DirectDoesNotStartManyRanks) { EXPECT_THROW(Launcher("direct").arguments(kFour, kCommand), JobsError); }

TEST(Launcher, FillsNamesAndKeepsQuotedWordsWhole) {
  EXPECT_THAT(Launcher("run 'a b'\"c  d\" n={ranks}x{ranks} '' {cpus}/{gpus}/{threads}\t{command} tail")
                  .arguments(kFour, {"x", "{ranks} ; rm", ""}),
              ElementsAre("run", "a bc  d", "n=4x4", "", "2/1/2", "x", "{ranks} ; rm", "", "tail"))
      << "what comes from the job is never filled in nor split";
}

TEST(Launcher, RefusesWhatItCannotFill) {
  EXPECT_THAT(refusal("mpirun -n {ranks}"), HasSubstr("no {command}"));
  EXPECT_THAT(refusal(""), HasSubstr("no {command}"));
  EXPECT_MESSAGE(refusal("a {command} {command}"));
  EXPECT_THAT(refusal("{command} a"), HasSubstr("no program"));
  EXPECT_THAT(refusal("a --run={command}"), HasSubstr("separate word"));
  EXPECT_THAT(refusal("a {nodes} {command}"), HasSubstr("unknown {nodes}"));
  EXPECT_THAT(refusal("a {ranks {command}"), HasSubstr("unknown {ranks"));
  EXPECT_THAT(refusal("a 'b {command}"), HasSubstr("not closed"));
}

}  // namespace
}  // namespace foretime::jobs
