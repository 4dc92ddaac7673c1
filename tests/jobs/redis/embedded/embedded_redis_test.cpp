#include "jobs/redis/embedded_redis.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "tests/jobs/redis/embedded/embedded_fixture.h"
#include "tests/support/golden.h"

namespace foretime::jobs {
namespace {

using ::testing::Not;
using namespace embedded;
using ::testing::HasSubstr;

TEST_F(EmbeddedRedisTest, LivesAsLongAsItsUsersAndKeepsTheData) {
  {
    const EmbeddedRedis redis(root_, kLinger);
    EXPECT_EQ(redis.folder(), folder());
    EXPECT_EQ(redis.url().socket, (folder() / "redis.sock").string());
    EXPECT_EQ(command(redis.url().socket, "SET name value"), "+OK\r\n");
    EXPECT_EQ(command(redis.url().socket, "CONFIG GET appendfsync"), "*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n");
    EXPECT_EQ(command(redis.url().socket, "CONFIG GET appendonly"), "*2\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n");
    EXPECT_EQ(command(redis.url().socket, "CONFIG GET port"), "*2\r\n$4\r\nport\r\n$1\r\n0\r\n");
    EXPECT_THAT(command(redis.url().socket, "CONFIG GET maxmemory-policy"), HasSubstr("noeviction"));
    struct stat found {};
    ASSERT_EQ(stat(folder().c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0700U);
  }
  ASSERT_TRUE(all_gone(root_));
  EXPECT_FALSE(fs::exists(folder() / "redis.sock"));
  const EmbeddedRedis again(root_, kLinger);
  EXPECT_EQ(command(again.url().socket, "GET name"), "$5\r\nvalue\r\n");
}

TEST_F(EmbeddedRedisTest, ARecordWithLongMetricsStaysCompact) {
  const EmbeddedRedis redis(root_, kLinger);
  command(redis.url().socket, "HSET job metrics " + std::string(1000, '1'));
  EXPECT_EQ(command(redis.url().socket, "OBJECT ENCODING job"), "$8\r\nlistpack\r\n");
}

TEST_F(EmbeddedRedisTest, TheLastOfTwoUsersEndsIt) {
  User first(root_), second(root_);
  EXPECT_EQ(first.outcome(), "+PONG\r\n");
  EXPECT_EQ(second.outcome(), "+PONG\r\n");
  const auto server = servers(root_);
  ASSERT_EQ(server.size(), 1U);
  first.leave();
  // Long enough for several looks at the users.
  std::this_thread::sleep_for(std::chrono::duration<double>(6 * kLinger));
  EXPECT_EQ(servers(root_), server);
  EXPECT_EQ(guardians(root_).size(), 1U);
  second.leave();
  EXPECT_TRUE(all_gone(root_));
}

TEST_F(EmbeddedRedisTest, AUserWhoComesWithinTheLingerFindsTheSameServer) {
  std::vector<pid_t> server;
  {
    const EmbeddedRedis redis(root_, 30);
    server = servers(root_);
    ASSERT_EQ(server.size(), 1U);
  }
  const EmbeddedRedis again(root_, 30);
  EXPECT_EQ(servers(root_), server);
  for (const pid_t pid : guardians(root_)) kill(pid, SIGTERM);  // without which it would linger on
  EXPECT_TRUE(all_gone(root_));
}

TEST_F(EmbeddedRedisTest, HoldsNothingOfItsStarter) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);  // inherited over fork and exec
  const auto before = foretime::testing::open_descriptors();
  {
    const EmbeddedRedis redis(root_, kLinger);
    close(ends[1]);
    pollfd wait{ends[0], POLLIN, 0};
    char byte = 0;
    ASSERT_EQ(poll(&wait, 1, 1'200'000), 1) << "guardian or server holds the pipe";
    EXPECT_EQ(read(ends[0], &byte, 1), 0);
    for (const pid_t pid : {guardians(root_).at(0), servers(root_).at(0)}) {
      const auto fd = fs::path("/proc") / std::to_string(pid) / "fd";
      EXPECT_EQ(fs::read_symlink(fd / "0"), "/dev/null");
      EXPECT_NE(getsid(pid), getsid(0));
      EXPECT_NE(getpgid(pid), getpgid(0));
      // Only a test of this: who looks for the starter by its command line must not find these.
      EXPECT_THAT(read_text(fs::path("/proc") / std::to_string(pid) / "cmdline"), HasSubstr("redis"));
      EXPECT_THAT(read_text(fs::path("/proc") / std::to_string(pid) / "cmdline"),
                  Not(HasSubstr("embedded_redis_test")));
    }
  }
  close(ends[0]);
  EXPECT_EQ(foretime::testing::open_descriptors(), before - 2);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left for the starter to wait for";
}

TEST_F(EmbeddedRedisTest, AStaleSocketIsNoHindrance) {
  make_folder();
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (folder() / "redis.sock").c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(listener);
  const EmbeddedRedis redis(root_, kLinger);
  EXPECT_EQ(command(redis.url().socket, "PING"), "+PONG\r\n");
}

TEST_F(EmbeddedRedisTest, ALongPath) {
  root_ = root_ / std::string(90, 'a') / std::string(90, 'b');
  const EmbeddedRedis redis(root_, kLinger);
  ASSERT_GT(redis.folder().string().size(), 150U);
  EXPECT_LT(redis.url().socket.size(), 108U);
  EXPECT_EQ(command(redis.url().socket, "PING"), "+PONG\r\n");
  User user(root_);
  EXPECT_EQ(user.outcome(), "+PONG\r\n");
  EXPECT_EQ(servers(root_).size(), 1U);
}

TEST_F(EmbeddedRedisTest, AFolderThatOthersMayEnterIsRefused) {
  fs::create_directories(folder());
  for (const auto mode : {0755, 0710, 0701}) {
    fs::permissions(folder(), static_cast<fs::perms>(mode));
    EXPECT_THAT(refusal(root_), HasSubstr("expected 700"));
  }
  EXPECT_TRUE(fs::is_empty(folder()));
  fs::permissions(folder(), fs::perms::owner_all);
  EXPECT_EQ(refusal(root_), "no exception");
}

TEST_F(EmbeddedRedisTest, ALinkAFileAndAStrangersFolderAreRefused) {
  fs::create_directories(root_ / "elsewhere");
  fs::permissions(root_ / "elsewhere", fs::perms::owner_all);
  fs::create_directory_symlink(root_ / "elsewhere", folder());
  EXPECT_THAT(refusal(root_), HasSubstr("symbolic link"));
  fs::remove(folder());
  std::ofstream(folder()) << "text";
  EXPECT_THAT(refusal(root_), HasSubstr("no folder"));
  fs::remove(folder());
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a folder of another user";
  make_folder();
  ASSERT_EQ(chown(folder().c_str(), 12345, 12345), 0);
  EXPECT_MESSAGE(refusal(root_));
}

TEST_F(EmbeddedRedisTest, AMissingServerSaysWhatToInstall) {
  std::string message;
  {
    const testing::Variable path("PATH", scratch_.path());
    message = refusal(root_);
  }
  EXPECT_THAT(message, HasSubstr("apt install redis-server"));
  EXPECT_THAT(message, HasSubstr("--redis"));
  EXPECT_THAT(message, HasSubstr("FORETIME_REDIS"));
  EXPECT_EQ(refusal(root_), "no exception");
}

TEST_F(EmbeddedRedisTest, AProgramThatIsNoServerIsReported) {
  const auto program = scratch_.path() / "redis-server";
  std::ofstream(program) << "no program";
  fs::permissions(program, fs::perms::owner_all);
  std::string message;
  {
    const testing::Variable path("PATH", scratch_.path());
    message = refusal(root_);
  }
  EXPECT_THAT(message, HasSubstr("could not be executed: Exec format error"));
}

TEST_F(EmbeddedRedisTest, DamagedDataShowTheEndOfTheLog) {
  {
    const EmbeddedRedis redis(root_, kLinger);
    for (int i = 0; i < 50; ++i) command(redis.url().socket, "SET key" + std::to_string(i) + " value");
  }
  ASSERT_TRUE(all_gone(root_));
  std::fstream file(newest_increment(root_), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(200);
  file << "damaged, for certain";
  file.close();
  fs::remove(folder() / "written");  // or the damage is found before Redis looks
  const auto message = refusal(root_);
  EXPECT_THAT(message, HasSubstr("ended at once"));
  EXPECT_THAT(message, HasSubstr("Bad file format reading the append only file"));
  EXPECT_THAT(message, HasSubstr("redis.log"));
  EXPECT_LT(message.size(), 6000U);
}

/// What a loss of power may leave of the last write: any part of it, and zeros for the rest.
// Promise redis/embedded-power-loss: after a loss of power the embedded Redis opens as before or after its last
// transition
TEST_F(EmbeddedRedisTest, APowerLossLeavesTheQueueAsItWasBeforeItsLastTransitionOrAfterIt) {
  constexpr char kBoth[] = "EVAL \"redis.call('set','a',ARGV[1]) redis.call('set','b',ARGV[1])\" 0 ";
  {
    const EmbeddedRedis redis(root_, kLinger);
    command(redis.url().socket, std::string(kBoth) + "old");
  }
  ASSERT_TRUE(all_gone(root_));
  const auto file = newest_increment(root_);
  const auto before = fs::file_size(file);
  const auto record = read_text(folder() / "written");
  {
    const EmbeddedRedis redis(root_, kLinger);
    command(redis.url().socket, std::string(kBoth) + "new");
  }
  ASSERT_TRUE(all_gone(root_));
  const auto whole = read_text(file);
  ASSERT_GT(whole.size(), before);
  std::set<std::string> seen;
  const auto last = whole.size() - before;
  for (const bool zeros : {false, true}) {
    for (size_t kept = 0; kept <= last; kept += std::max<size_t>(1, last / 12)) {
      auto left = whole.substr(0, before + kept);
      if (zeros) left.resize(whole.size() + 5000, '\0');
      foretime::testing::write_text(file, left);
      foretime::testing::write_text(folder() / "written", record);  // which came before the last write
      const EmbeddedRedis redis(root_, 0.0);
      const auto a = command(redis.url().socket, "GET a"), b = command(redis.url().socket, "GET b");
      EXPECT_EQ(a, b) << "kept " << kept << " bytes, zeros " << zeros;
      EXPECT_TRUE(a == "$3\r\nold\r\n" || a == "$3\r\nnew\r\n") << a;
      seen.insert(a);
      for (const pid_t pid : guardians(root_)) kill(pid, SIGTERM);
      ASSERT_TRUE(all_gone(root_));
    }
  }
  foretime::testing::write_text(file, whole);
  foretime::testing::write_text(folder() / "written", record);
  const EmbeddedRedis redis(root_, kLinger);
  seen.insert(command(redis.url().socket, "GET a"));
  EXPECT_EQ(seen.size(), 2U);
}

TEST_F(EmbeddedRedisTest, ALargeLogIsEmptied) {
  make_folder();
  std::ofstream(folder() / "redis.log") << std::string(5 << 20, 'x');
  const EmbeddedRedis redis(root_, kLinger);
  EXPECT_LT(fs::file_size(folder() / "redis.log"), 100'000U);
}

TEST_F(EmbeddedRedisTest, AServerOfAnotherHostIsNamed) {
  make_folder();
  std::ofstream(folder() / "owner") << "far.example\nanother-boot\n4711\n";
  const Descriptor held(open((folder() / "guardian.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(held.get(), LOCK_EX), 0);
  EXPECT_MESSAGE(refusal(root_));
}

// Promise redis/embedded-two-machines
TEST_F(EmbeddedRedisTest, AServerOfAnotherHostWhoseLocksAreNotSeenIsNamedWhileItShowsSignsOfLife) {
  make_folder();
  std::ofstream(folder() / "owner") << "far.example\nanother-boot\n4711\n";
  std::atomic<bool> over{false};
  std::thread guardian([&] {
    while (!over) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      fs::last_write_time(folder() / "owner", fs::file_time_type::clock::now());
    }
  });
  EXPECT_MESSAGE(refusal(root_));
  EXPECT_TRUE(servers(root_).empty());
  over = true;
  guardian.join();
  fs::last_write_time(folder() / "owner", fs::file_time_type::clock::now() - std::chrono::minutes(1));
  EXPECT_EQ(refusal(root_), "no exception");
  EXPECT_TRUE(all_gone(root_));
  EXPECT_FALSE(fs::exists(folder() / "owner"));
}

// Promise redis/embedded-owner: an unreadable file `owner` of the embedded Redis is named, and nobody waits for ever
TEST_F(EmbeddedRedisTest, AnOwnerThatCannotBeReadIsAnErrorThatNamesIt) {
  make_folder();
  const auto owner = folder() / "owner";
  fs::create_symlink("elsewhere", owner);
  EXPECT_MESSAGE(refusal(root_));
  fs::remove(owner);
  fs::create_directory(owner);
  EXPECT_MESSAGE(refusal(root_));
  fs::remove(owner);
  EXPECT_EQ(refusal(root_), "no exception");
}

TEST_F(EmbeddedRedisTest, AGuardianWhoseFolderAnotherMachineHasTakenOverEndsItsServerAndLeavesTheFilesAlone) {
  const EmbeddedRedis redis(root_, 30);
  fs::remove(folder() / "owner");
  std::ofstream(folder() / "owner") << "far.example\nanother-boot\n4711\n";
  EXPECT_TRUE(all_gone(root_));
  EXPECT_EQ(read_text(folder() / "owner"), "far.example\nanother-boot\n4711\n");
  EXPECT_TRUE(fs::exists(folder() / "redis.sock")) << "it may be the other machine's";
}

TEST_F(EmbeddedRedisTest, AStarterWithoutStandardStreamsAndWithIgnoredSignals) {
  const pid_t starter = fork();
  if (starter == 0) {
    for (int i = 0; i < 3; ++i) close(i);
    for (const int signal : {SIGCHLD, SIGTERM, SIGPIPE, SIGINT}) ::signal(signal, SIG_IGN);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    try {
      const EmbeddedRedis redis(root_, kLinger);
      _exit(command(redis.url().socket, "SET name value") == "+OK\r\n" ? 0 : 2);
    } catch (...) {
      _exit(1);
    }
  }
  int status = 0;
  ASSERT_EQ(waitpid(starter, &status, 0), starter);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(all_gone(root_));  // by SIGTERM, which the starter ignored
}

TEST_F(EmbeddedRedisTest, StartsFromAProcessWhoseThreadsHoldLocks) {
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!over) std::make_unique<std::string>(100, 'x')->append(std::to_string(getpid()));
    });
  }
  for (int i = 0; i < 5; ++i) {
    const EmbeddedRedis redis(root_, 0.0);
    EXPECT_EQ(command(redis.url().socket, "PING"), "+PONG\r\n");
    for (const pid_t pid : guardians(root_)) kill(pid, SIGKILL);
    EXPECT_TRUE(eventually([&] { return guardians(root_).empty(); }));  // or the next user finds its dying server
  }
  over = true;
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace foretime::jobs
