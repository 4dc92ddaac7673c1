#include "jobs/embedded_redis.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/error.h"
#include "tests/jobs/processes.h"
#include "tests/support/scratch.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;
using foretime::testing::eventually;
using foretime::testing::read_text;
using foretime::testing::Scratch;
using ::testing::HasSubstr;

constexpr double kLinger = 0.3;

/// Living processes of that name whose working folder is `folder`: guardians and servers have no other place.
std::vector<pid_t> processes(const std::string& name, const fs::path& folder) {
  std::vector<pid_t> found;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc", gone)) {
    const auto number = entry.path().filename().string();
    if (number.find_first_not_of("0123456789") != std::string::npos) continue;
    if (read_text(entry.path() / "comm") != name + "\n") continue;
    if (fs::read_symlink(entry.path() / "cwd", gone) == folder && !gone) found.push_back(std::stoi(number));
  }
  return found;
}
std::vector<pid_t> guardians(const fs::path& root) { return processes("ft-redis", root / ".redis"); }
std::vector<pid_t> servers(const fs::path& root) { return processes("redis-server", root / ".redis"); }
bool all_gone(const fs::path& root) {
  return eventually([&] { return guardians(root).empty() && servers(root).empty(); });
}

/// One command in Redis' inline form on a connection of its own, and its answer; "" where there is no Redis.
std::string command(const std::string& socket_path, const std::string& text) {
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_path.c_str(), sizeof(address.sun_path) - 1);
  const timeval patience{10, 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  const std::string line = text + "\r\n";
  char answer[4096] = "";
  if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
      send(connection, line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size()))
    if (recv(connection, answer, sizeof(answer) - 1, 0) < 0) answer[0] = '\0';
  close(connection);
  return answer;
}

std::string refusal(const fs::path& root, double patience = 60) {
  try {
    const EmbeddedRedis redis(root, kLinger, patience);
  } catch (const RedisUnavailable& e) {
    return e.what();
  }
  return "";
}

/// A process of its own that uses the server until it is told to leave or is killed.
class User {
 public:
  explicit User(const fs::path& root, double linger = kLinger) {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_) != 0) throw std::runtime_error("socketpair");
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == parent) live(root, linger);
      _exit(1);
    }
    close(ends_[1]);
  }
  ~User() {
    kill9();
    close(ends_[0]);
  }
  User(const User&) = delete;
  User& operator=(const User&) = delete;

  /// What the server says to PING, or the error.
  std::string outcome() {
    char text[2000] = "";
    if (recv(ends_[0], text, sizeof(text) - 1, 0) < 0) return "no outcome";
    return text;
  }
  void leave() {
    ASSERT_EQ(send(ends_[0], "q", 1, MSG_NOSIGNAL), 1);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  void kill9() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  void live(const fs::path& root, double linger) {
    std::string outcome;
    std::optional<EmbeddedRedis> redis;
    try {
      redis.emplace(root, linger);
      outcome = command(redis->url().socket, "PING");
    } catch (const std::exception& e) {
      outcome = e.what();
    }
    char order = 0;
    if (send(ends_[1], outcome.data(), outcome.size(), MSG_NOSIGNAL) > 0) recv(ends_[1], &order, 1, 0);
    redis.reset();
    _exit(0);
  }

  int ends_[2] = {-1, -1};
  pid_t pid_ = -1;
};

class EmbeddedRedisTest : public ::testing::Test {
 protected:
  EmbeddedRedisTest() : root_(fs::canonical(scratch_.path()) / "runs") {}
  ~EmbeddedRedisTest() override {
    EXPECT_TRUE(all_gone(root_)) << "a process was left behind";
    for (const pid_t pid : guardians(root_)) kill(pid, SIGKILL);
  }
  fs::path folder() const { return root_ / ".redis"; }

  Scratch scratch_;
  fs::path root_;
};

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

TEST_F(EmbeddedRedisTest, TheLastOfTwoUsersEndsIt) {
  User first(root_), second(root_);
  EXPECT_EQ(first.outcome(), "+PONG\r\n");
  EXPECT_EQ(second.outcome(), "+PONG\r\n");
  const auto server = servers(root_);
  ASSERT_EQ(server.size(), 1U);
  first.leave();
  // Long enough for several looks at the users.
  std::this_thread::sleep_for(std::chrono::duration<double>(4 * kLinger));
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

TEST_F(EmbeddedRedisTest, AKilledUserIsNoUser) {
  User user(root_);
  EXPECT_EQ(user.outcome(), "+PONG\r\n");
  EXPECT_EQ(servers(root_).size(), 1U);
  user.kill9();
  EXPECT_TRUE(all_gone(root_));
}

TEST_F(EmbeddedRedisTest, AKilledServerComesBackWithItsData) {
  const EmbeddedRedis redis(root_, kLinger);
  const auto socket = redis.url().socket;
  for (int kills = 0; kills < 3; ++kills) {
    ASSERT_EQ(command(socket, "INCR kills"), fmt::format(":{}\r\n", kills + 1));
    const auto server = servers(root_);
    ASSERT_EQ(server.size(), 1U);
    kill(server.front(), SIGKILL);
    ASSERT_TRUE(eventually([&] { return !servers(root_).empty() && servers(root_) != server; }));
    ASSERT_TRUE(eventually([&] { return command(socket, "PING") == "+PONG\r\n"; }));
  }
  EXPECT_EQ(command(socket, "GET kills"), "$1\r\n3\r\n");
  EXPECT_EQ(guardians(root_).size(), 1U);
}

TEST_F(EmbeddedRedisTest, AKilledGuardianTakesTheServerWithItAndANewUserStartsAnew) {
  const EmbeddedRedis redis(root_, kLinger);
  EXPECT_EQ(command(redis.url().socket, "SET name value"), "+OK\r\n");
  const auto old_guardian = guardians(root_), old_server = servers(root_);
  ASSERT_EQ(old_guardian.size(), 1U);
  ASSERT_EQ(old_server.size(), 1U);
  kill(old_guardian.front(), SIGKILL);
  ASSERT_TRUE(eventually([&] { return guardians(root_).empty(); }));
  // At once: the old server notices its SIGTERM ten times a second only, and until then it answers.
  const EmbeddedRedis newcomer(root_, kLinger);
  EXPECT_EQ(command(newcomer.url().socket, "GET name"), "$5\r\nvalue\r\n");
  EXPECT_EQ(guardians(root_).size(), 1U);
  ASSERT_EQ(servers(root_).size(), 1U);
  EXPECT_NE(servers(root_), old_server);
}

TEST_F(EmbeddedRedisTest, WithoutANewUserAKilledGuardiansServerEnds) {
  EmbeddedRedis redis(root_, kLinger);
  EXPECT_EQ(command(redis.url().socket, "SET name value"), "+OK\r\n");
  for (const pid_t pid : guardians(root_)) kill(pid, SIGKILL);
  ASSERT_TRUE(all_gone(root_));
  redis.ensure();  // as a user who lives on would
  EXPECT_EQ(command(redis.url().socket, "GET name"), "$5\r\nvalue\r\n");
}

TEST_F(EmbeddedRedisTest, AnOldServerThatIsSlowToEndIsWaitedFor) {
  const EmbeddedRedis redis(root_, kLinger);
  const auto server = servers(root_);
  ASSERT_EQ(server.size(), 1U);
  kill(server.front(), SIGSTOP);  // it gets its SIGTERM only when it goes on
  for (const pid_t pid : guardians(root_)) kill(pid, SIGKILL);
  User newcomer(root_);
  ASSERT_TRUE(eventually([&] { return guardians(root_).size() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(servers(root_), server) << "two servers on the same files";
  kill(server.front(), SIGCONT);
  EXPECT_EQ(newcomer.outcome(), "+PONG\r\n");
  EXPECT_EQ(servers(root_).size(), 1U);
}

TEST_F(EmbeddedRedisTest, EightUsersAtOnceGetOneServer) {
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<User>> users;
    for (int i = 0; i < 8; ++i) users.push_back(std::make_unique<User>(root_));
    for (const auto& user : users) EXPECT_EQ(user->outcome(), "+PONG\r\n");
    EXPECT_EQ(servers(root_).size(), 1U);
    EXPECT_EQ(guardians(root_).size(), 1U);
    const auto log = read_text(folder() / "redis.log");
    size_t starts = 0;
    for (size_t at = 0; (at = log.find("Server initialized", at)) != std::string::npos; ++at) ++starts;
    EXPECT_EQ(starts, static_cast<size_t>(round + 1)) << log;
    users.clear();
    ASSERT_TRUE(all_gone(root_));
  }
}

TEST_F(EmbeddedRedisTest, UsersWhoComeWhileItStopsAreServed) {
  for (int i = 0; i < 12; ++i) {
    const EmbeddedRedis redis(root_, 0.0);
    ASSERT_EQ(command(redis.url().socket, "INCR rounds"), fmt::format(":{}\r\n", i + 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * i));  // many moments of the guardian's cycle
  }
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
    ASSERT_EQ(poll(&wait, 1, 20000), 1) << "guardian or server holds the pipe";
    EXPECT_EQ(read(ends[0], &byte, 1), 0);
    for (const pid_t pid : {guardians(root_).at(0), servers(root_).at(0)}) {
      const auto fd = fs::path("/proc") / std::to_string(pid) / "fd";
      EXPECT_EQ(fs::read_symlink(fd / "0"), "/dev/null");
      EXPECT_NE(getsid(pid), getsid(0));
      EXPECT_NE(getpgid(pid), getpgid(0));
      // Only a test of this: who looks for the starter by its command line must not find these.
      EXPECT_THAT(read_text(fs::path("/proc") / std::to_string(pid) / "cmdline"), HasSubstr("redis"));
      EXPECT_EQ(read_text(fs::path("/proc") / std::to_string(pid) / "cmdline").find("embedded_redis_test"),
                std::string::npos);
    }
  }
  close(ends[0]);
  EXPECT_EQ(foretime::testing::open_descriptors(), before - 2);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left for the starter to wait for";
}

TEST_F(EmbeddedRedisTest, AStaleSocketIsNoHindrance) {
  fs::create_directories(folder());
  fs::permissions(folder(), fs::perms::owner_all);
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
  EXPECT_EQ(refusal(root_), "");
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
  fs::create_directories(folder());
  fs::permissions(folder(), fs::perms::owner_all);
  ASSERT_EQ(chown(folder().c_str(), 12345, 12345), 0);
  EXPECT_THAT(refusal(root_), HasSubstr("belongs to user 12345"));
}

TEST_F(EmbeddedRedisTest, AMissingServerSaysWhatToInstall) {
  const std::string path = getenv("PATH");
  setenv("PATH", scratch_.path().c_str(), 1);
  const auto message = refusal(root_);
  setenv("PATH", path.c_str(), 1);
  EXPECT_THAT(message, HasSubstr("apt install redis-server"));
  EXPECT_THAT(message, HasSubstr("--redis"));
  EXPECT_THAT(message, HasSubstr("FORETIME_REDIS"));
  EXPECT_EQ(refusal(root_), "");
}

TEST_F(EmbeddedRedisTest, AProgramThatIsNoServerIsReported) {
  const auto program = scratch_.path() / "redis-server";
  std::ofstream(program) << "no program";
  fs::permissions(program, fs::perms::owner_all);
  const std::string path = getenv("PATH");
  setenv("PATH", scratch_.path().c_str(), 1);
  const auto message = refusal(root_);
  setenv("PATH", path.c_str(), 1);
  EXPECT_THAT(message, HasSubstr("could not be executed: Exec format error"));
}

TEST_F(EmbeddedRedisTest, DamagedDataShowTheEndOfTheLog) {
  {
    const EmbeddedRedis redis(root_, kLinger);
    for (int i = 0; i < 50; ++i) command(redis.url().socket, "SET key" + std::to_string(i) + " value");
  }
  ASSERT_TRUE(all_gone(root_));
  fs::path data;
  for (const auto& entry : fs::directory_iterator(folder() / "appendonlydir")) {
    if (entry.path().string().find(".incr.aof") != std::string::npos) data = entry.path();
  }
  ASSERT_FALSE(data.empty());
  std::fstream file(data, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(200);
  file << "damaged, for certain";
  file.close();
  const auto message = refusal(root_);
  EXPECT_THAT(message, HasSubstr("ended at once"));
  EXPECT_THAT(message, HasSubstr("Bad file format reading the append only file"));
  EXPECT_THAT(message, HasSubstr("redis.log"));
  EXPECT_LT(message.size(), 6000U);
}

TEST_F(EmbeddedRedisTest, AServerThatHangsIsReportedInTime) {
  const EmbeddedRedis redis(root_, kLinger);
  const auto server = servers(root_).at(0);
  kill(server, SIGSTOP);
  const auto message = refusal(root_, 0.3);
  kill(server, SIGCONT);
  EXPECT_THAT(message, HasSubstr("no answer within 0.3 s"));
  EXPECT_EQ(refusal(root_), "");
}

TEST_F(EmbeddedRedisTest, ALargeLogIsEmptied) {
  fs::create_directories(folder());
  fs::permissions(folder(), fs::perms::owner_all);
  std::ofstream(folder() / "redis.log") << std::string(5 << 20, 'x');
  const EmbeddedRedis redis(root_, kLinger);
  EXPECT_LT(fs::file_size(folder() / "redis.log"), 100'000U);
}

}  // namespace
}  // namespace foretime::jobs
