#include "jobs/supervisor/supervisor.h"

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/error.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/processes.h"
#include "tests/support/scratch.h"

/// How long a supervisor takes for its setpgid, which is its first call after it has forked its command.
static timespec setpgid_duration{};

/// Takes the place of the C library's function in the whole program.
extern "C" int setpgid(pid_t process, pid_t group) noexcept {
  if (process != 0) nanosleep(&setpgid_duration, nullptr);
  return syscall(SYS_setpgid, process, group) == 0 ? 0 : -1;
}

namespace foretime::jobs {
namespace {

using testing::eventually;
using ::testing::HasSubstr;
using testing::nothing_left;
using testing::processes_with;
using testing::session_leaders_with;

SupervisedProcess::Options shell(const std::string& script) { return {.arguments = {"/bin/sh", "-c", script}}; }

std::string drain(int descriptor) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 1; got > 0;) {
    got = read(descriptor, buffer, sizeof(buffer));
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

ExitStatus wait_for(SupervisedProcess& process) {
  std::optional<ExitStatus> status;
  EXPECT_TRUE(eventually([&] { return (status = process.poll_exit()).has_value(); })) << "it does not end";
  return status.value_or(ExitStatus{-1, -1});
}

/// A word that only this test's processes have on their command lines.
std::string fresh_mark() {
  static int count = 0;
  return fmt::format("ft-mark-{}-{}", getpid(), ++count);
}

/// A process in a session of its own, which nothing but SIGKILL ends; the word in its command line is `mark`.
std::string stubborn_daemon(const std::string& mark) {
  return fmt::format(
      "setsid /bin/sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1000 & wait; done; : {}' </dev/null & ", mark);
}

bool is_stopped(pid_t process) {
  const auto text = testing::read_text(fmt::format("/proc/{}/stat", process));
  const auto name_end = text.rfind(") ");
  return name_end != std::string::npos && text[name_end + 2] == 'T';
}

TEST(Supervisor, GivesTheExitCode) {
  for (const int code : {0, 1, 75, 255}) {
    SupervisedProcess process(shell("exit " + std::to_string(code)));
    const auto status = wait_for(process);
    EXPECT_EQ(status.code, code);
    EXPECT_EQ(status.signal, 0);
  }
}

TEST(Supervisor, GivesTheSignal) {
  SupervisedProcess process(shell("kill -SEGV $$"));
  const auto status = wait_for(process);
  EXPECT_EQ(status.signal, SIGSEGV);
  EXPECT_EQ(status.code, 128 + SIGSEGV);
}

TEST(Supervisor, OutputEnvironmentAndFolderAreAsAsked) {
  testing::Scratch scratch;
  setenv("FT_REMOVED", "secret", 1);
  auto options = shell("pwd; echo \"$FT_ADDED-${FT_REMOVED-none}\"; echo wrong >&2; cat");
  options.environment = {{"FT_ADDED", "a b"}, {"FT_REMOVED", ""}};
  options.working_folder = scratch.path();
  SupervisedProcess process(options);
  EXPECT_EQ(wait_for(process).code, 0);
  EXPECT_EQ(drain(process.output()), scratch.path().string() + "\na b-none\nwrong\n");
  EXPECT_EQ(process.standard_output(), -1);

  options.separate_stdout = true;
  SupervisedProcess apart(options);
  EXPECT_EQ(wait_for(apart).code, 0);
  EXPECT_EQ(drain(apart.output()), "wrong\n");
  EXPECT_EQ(drain(apart.standard_output()), scratch.path().string() + "\na b-none\n");
}

TEST(Supervisor, SignalsOfTheAgentAreNotInherited) {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  std::signal(SIGINT, SIG_IGN);
  SupervisedProcess process(shell("grep -E 'SigBlk|SigIgn' /proc/self/status"));
  std::signal(SIGINT, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
  EXPECT_EQ(wait_for(process).code, 0);
  EXPECT_EQ(drain(process.output()), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST(Supervisor, DescriptorsOfTheAgentAreNotInherited) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);  // without close-on-exec
  SupervisedProcess process(shell("sleep 1000"));
  close(pipe_ends[1]);
  char byte = 0;
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0) << "the supervisor or the command holds the other end";
  close(pipe_ends[0]);
}

TEST(Supervisor, WhatCannotBeStartedIsSaidAndLeavesNothing) {
  const auto before = testing::open_descriptors();
  const auto refused = [](const SupervisedProcess::Options& options) {
    return testing::message_of<JobsError>([&] { const SupervisedProcess process(options); });
  };
  SupervisedProcess::Options options{.arguments = {"/no/such/program"}};
  EXPECT_MESSAGE(refused(options), "/no/such/program");
  options.arguments = {"no-such-program-anywhere"};
  EXPECT_MESSAGE(refused(options));
  options.arguments = {"/etc/passwd"};
  EXPECT_THAT(refused(options), HasSubstr("Permission denied"));
  EXPECT_THAT(refused(SupervisedProcess::Options{}), HasSubstr("empty"));
  options = shell("true");
  options.working_folder = "/no/such/folder";
  EXPECT_THAT(refused(options), HasSubstr("working folder /no/such/folder"));
  EXPECT_EQ(testing::open_descriptors(), before);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child was left";
}

TEST(Supervisor, KillEndsDescendantsInSessionsOfTheirOwn) {
  const auto mark = fresh_mark();
  SupervisedProcess process(shell(stubborn_daemon(mark) + "wait"));
  ASSERT_TRUE(eventually([&] { return !session_leaders_with(mark).empty(); }));
  process.kill();
  EXPECT_EQ(wait_for(process).signal, SIGKILL);
  EXPECT_TRUE(processes_with(mark).empty()) << "poll_exit must wait for all";
}

TEST(Supervisor, TerminateLetsTheCommandEndItselfAndThenKillsTheRest) {
  const auto mark = fresh_mark();
  SupervisedProcess process(shell("trap 'echo asked; exit 75' TERM; " + stubborn_daemon(mark) + "echo up; wait; wait"));
  ASSERT_TRUE(eventually([&] { return !session_leaders_with(mark).empty(); }));
  process.terminate();
  EXPECT_EQ(wait_for(process).code, 75);
  EXPECT_THAT(drain(process.output()), HasSubstr("asked"));
  EXPECT_TRUE(processes_with(mark).empty());
}

TEST(Supervisor, TerminateKillsAfterTheGraceTime) {
  const auto mark = fresh_mark();
  auto options = shell("trap '' TERM; echo up; " + stubborn_daemon(mark) + "while :; do sleep 1000; done");
  options.kill_grace_seconds = 0.3;
  SupervisedProcess process(options);
  ASSERT_TRUE(eventually([&] { return !session_leaders_with(mark).empty(); }));
  process.terminate();
  EXPECT_EQ(wait_for(process).signal, SIGKILL);
  EXPECT_TRUE(processes_with(mark).empty());
}

TEST(Supervisor, NothingIsLeftWhenTheCommandEndsByItself) {
  const auto mark = fresh_mark();
  SupervisedProcess process(shell(stubborn_daemon(mark) + "sleep 0.2; exit 3"));
  EXPECT_EQ(wait_for(process).code, 3);
  EXPECT_TRUE(processes_with(mark).empty());
}

TEST(Supervisor, TheDestructorKillsAndWaits) {
  const auto mark = fresh_mark();
  const auto before = testing::open_descriptors();
  {
    SupervisedProcess process(shell(stubborn_daemon(mark) + "wait"));
    ASSERT_TRUE(eventually([&] { return !session_leaders_with(mark).empty(); }));
  }
  EXPECT_TRUE(processes_with(mark).empty());
  EXPECT_EQ(testing::open_descriptors(), before);
}

/// Runs `options` in an owner process of its own, and kills that once `ready` holds.
void kill_owner_of(const SupervisedProcess::Options& options, const std::function<bool()>& ready) {
  const pid_t owner = fork();
  ASSERT_GE(owner, 0);
  if (owner == 0) {
    const SupervisedProcess process(options);
    for (;;) pause();
  }
  EXPECT_TRUE(eventually(ready)) << "the command does not come up";
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
}

TEST(Supervisor, NothingSurvivesAnOwnerThatIsKilled) {
  const auto mark = fresh_mark();
  kill_owner_of(shell("trap '' TERM; " + stubborn_daemon(mark) + "wait; : " + mark),
                [&] { return !session_leaders_with(mark).empty(); });
  EXPECT_TRUE(nothing_left(mark));
}

TEST(Supervisor, TheCommandDoesNotSurviveASupervisorThatIsKilled) {
  const auto mark = fresh_mark();
  SupervisedProcess process(shell("echo up; while :; do sleep 0.1; done; : " + mark));
  ASSERT_TRUE(eventually([&] { return processes_with(mark).size() == 1; }));
  kill(process.supervisor(), SIGKILL);
  EXPECT_EQ(wait_for(process).signal, SIGKILL);
  EXPECT_TRUE(nothing_left(mark));
}

// Promise agents/job-stops-supervisor: a job that stops its supervisor gives its slot back
TEST(Supervisor, AStoppedSupervisorObeys) {
  const auto mark = fresh_mark();
  SupervisedProcess process(shell("kill -STOP $PPID; sleep 1000; : " + mark));
  ASSERT_TRUE(eventually([&] { return is_stopped(process.supervisor()); }));
  process.kill();
  EXPECT_EQ(wait_for(process).signal, SIGKILL);
  EXPECT_TRUE(nothing_left(mark));
}

TEST(Supervisor, ACommandThatStopsItsSupervisorAtOnceDoesNotBlockTheAgent) {
  const auto mark = fresh_mark();
  setpgid_duration.tv_nsec = 300'000'000;  // as on a machine with much to do
  SupervisedProcess process(shell("kill -STOP $PPID; sleep 1000; : " + mark));
  setpgid_duration.tv_nsec = 0;
  ASSERT_TRUE(eventually([&] { return is_stopped(process.supervisor()); }));
  process.kill();
  EXPECT_EQ(wait_for(process).signal, SIGKILL);
  EXPECT_TRUE(nothing_left(mark));
}

/// It cannot obey: whenever it continues, it is stopped again.
// Promise agents/job-stops-supervisor
TEST(Supervisor, OneThatIsStoppedAgainAndAgainIsKilledWithAllThatItStarted) {
  const auto mark = fresh_mark();
  SupervisedProcess process(shell(fmt::format(
      "for i in 1 2; do setsid /bin/sh -c 'while :; do kill -STOP '$PPID'; done; : {}' & done; wait", mark)));
  ASSERT_TRUE(eventually([&] { return is_stopped(process.supervisor()); }));
  EXPECT_TRUE(eventually([&] {
    process.kill();
    return process.poll_exit().has_value();
  }));
  EXPECT_EQ(process.poll_exit()->signal, SIGKILL);
  EXPECT_TRUE(nothing_left(mark));
}

TEST(Supervisor, TheDestructorEndsOneThatWasStopped) {
  const auto mark = fresh_mark();
  {
    const SupervisedProcess process(shell("kill -STOP $PPID; sleep 1000; : " + mark));
    ASSERT_TRUE(eventually([&] { return is_stopped(process.supervisor()); }));
  }
  EXPECT_TRUE(nothing_left(mark));
}

TEST(Supervisor, RanksOfMpirunDoNotSurviveAnOwnerThatIsKilled) {
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "needs mpirun (openmpi-bin)";
  const auto mark = fresh_mark();
  SupervisedProcess::Options options{
      .arguments = {"mpirun", "-n", "2", "--bind-to", "none", "--oversubscribe", "/bin/sh", "-c",
                    "trap '' TERM; while :; do sleep 0.1; done; : " + mark},
      .environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}}};
  kill_owner_of(options, [&] { return processes_with(mark).size() >= 3; });  // mpirun and its ranks
  EXPECT_TRUE(nothing_left(mark));
}

TEST(Supervisor, ManyAtOnceLeakNoDescriptorAndMixNothingUp) {
  const auto before = testing::open_descriptors();
  {
    std::vector<std::unique_ptr<SupervisedProcess>> processes;
    for (int i = 0; i < 50; ++i)
      processes.push_back(std::make_unique<SupervisedProcess>(shell(fmt::format("echo {}; exit {}", i, i))));
    for (int i = 0; i < 50; ++i) {
      auto& process = *processes[static_cast<size_t>(i)];
      EXPECT_EQ(wait_for(process).code, i);
      EXPECT_EQ(drain(process.output()), std::to_string(i) + "\n");
    }
  }
  EXPECT_EQ(testing::open_descriptors(), before);
}

}  // namespace
}  // namespace foretime::jobs
