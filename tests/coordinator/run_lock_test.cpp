#include "coordinator/run_lock.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "configs/load.h"
#include "tests/support/golden.h"
#include "tests/support/processes.h"
#include "tests/support/scratch.h"

namespace foretime::coordinator {
namespace {

using foretime::testing::eventually;
using foretime::testing::Scratch;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr LockTimes kQuick{std::chrono::milliseconds(40), std::chrono::milliseconds(400)};

std::string refusal(const fs::path& folder, LockTimes times = kQuick) {
  try {
    const RunLock lock(folder, times);
  } catch (const DirectoryInUse& error) {
    EXPECT_EQ(error.exit_code(), kUsage);
    return error.what();
  }
  return "";
}

/// As a process of another machine has left it.
void write_foreign(const fs::path& folder) {
  fs::create_directories(folder);
  const nlohmann::json holder = {
      {"host", "elsewhere"}, {"pid", 7}, {"since", "yesterday"}, {"kernel", "another"}, {"start", "1"}};
  std::ofstream(folder / "run.lock") << holder.dump();
}

// Promise mistakes/run-directory-locked
TEST(RunLock, IsHeldByOneAtATimeAndNamesItsHolder) {
  const Scratch scratch;
  const auto folder = scratch.path() / "runs/one";
  std::optional<RunLock> lock(std::in_place, folder, kQuick);
  EXPECT_THAT(refusal(folder), AllOf(HasSubstr(folder.string()), HasSubstr("process " + std::to_string(getpid())),
                                     HasSubstr(" on " + host_name()), ContainsRegex("since [0-9-]+ [0-9:]+ UTC")));
  lock.reset();
  EXPECT_FALSE(fs::exists(folder / "run.lock"));
  EXPECT_EQ(refusal(folder), "");
}

TEST(RunLock, OfAKilledProcessIsTakenOverAtOnce) {
  const Scratch scratch;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunLock lock(scratch.path());
    [[maybe_unused]] const auto told = write(ready[1], "x", 1);
    for (;;) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_THAT(refusal(scratch.path()), HasSubstr("process " + std::to_string(child)));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(fs::exists(scratch.path() / "run.lock"));
  LockTimes times;
  times.patience = std::chrono::milliseconds(0);
  EXPECT_EQ(refusal(scratch.path(), times), "") << "nothing is waited for";
}

TEST(RunLock, OfAnotherMachineIsTakenOverWhenItStandsStill) {
  const Scratch scratch;
  write_foreign(scratch.path());
  EXPECT_EQ(refusal(scratch.path()), "");
}

TEST(RunLock, OfAnotherMachineIsRefusedWhereNobodyCanWaitSoLong) {
  const Scratch scratch;
  write_foreign(scratch.path());
  auto times = kQuick;
  times.patience = times.stale / 4;
  EXPECT_MESSAGE(refusal(scratch.path(), times));
}

TEST(RunLock, OfAnotherMachineIsRespectedWhileItIsRenewed) {
  const Scratch scratch;
  write_foreign(scratch.path());
  std::jthread holder([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      fs::last_write_time(scratch.path() / "run.lock", fs::file_time_type::clock::now());
      std::this_thread::sleep_for(std::chrono::milliseconds(40));
    }
  });
  auto times = kQuick;
  times.stale = std::chrono::minutes(10);  // a busy machine may run the holder late
  EXPECT_MESSAGE(refusal(scratch.path(), times));
}

TEST(RunLock, IsRenewedWhileItIsHeld) {
  const Scratch scratch;
  const RunLock lock(scratch.path(), kQuick);
  const auto first = fs::last_write_time(scratch.path() / "run.lock");
  EXPECT_TRUE(eventually([&] { return fs::last_write_time(scratch.path() / "run.lock") > first; }));
}

TEST(RunLock, ThatAnotherMachineTookOverIsNeitherRenewedNorRemoved) {
  const Scratch scratch;
  const auto folder = scratch.path() / "run";
  {
    const RunLock lock(folder, kQuick);
    write_foreign(folder);  // into the same file, as a takeover does
    const auto then = fs::last_write_time(folder / "run.lock");
    std::this_thread::sleep_for(5 * kQuick.beat);
    EXPECT_EQ(fs::last_write_time(folder / "run.lock"), then);
  }
  EXPECT_TRUE(fs::exists(folder / "run.lock"));
}

TEST(RunLock, DamagedContentsAreNobodys) {
  const Scratch scratch;
  for (const char* text : {"", "{", "[]", "{}", R"({"pid": "x"})"}) {
    std::ofstream(scratch.path() / "run.lock") << text;
    EXPECT_EQ(refusal(scratch.path()), "") << text;
  }
}

TEST(RunLock, AFolderThatCannotBeMadeIsAMistakeInTheSettings) {
  EXPECT_THROW(RunLock("/proc/x"), configs::SettingsError);
}

}  // namespace
}  // namespace foretime::coordinator
