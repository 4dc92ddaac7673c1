#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/jobs/redis/embedded/embedded_fixture.h"

namespace foretime::jobs {
namespace {

using namespace embedded;
using ::testing::HasSubstr;

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

TEST_F(EmbeddedRedisTest, AServerThatHangsIsReportedInTime) {
  const EmbeddedRedis redis(root_, kLinger);
  const auto server = servers(root_).at(0);
  kill(server, SIGSTOP);
  const auto message = refusal(root_, 0.3);
  kill(server, SIGCONT);
  EXPECT_THAT(message, HasSubstr("no answer within 0.3 s"));
  EXPECT_EQ(refusal(root_), "no exception");
}

/// What the users of the next test tell it, in memory that they share.
struct Tally {
  std::atomic<int64_t> acknowledged, sent, refused;
};

/// Counts in Redis for ever, one user's life after the other; only its own death ends it.
[[noreturn]] void count_for_ever(const fs::path& root, const std::string& key, Tally& tally, unsigned seed) {
  std::mt19937 random(seed);
  for (;;) {
    try {
      EmbeddedRedis redis(root, 0.05, 1200);
      for (auto turns = random() % 40; turns > 0; --turns) {
        ++tally.sent;
        const auto answer = command(redis.url().socket, "INCR " + key);
        if (!answer.empty() && answer[0] == ':') ++tally.acknowledged;
        else redis.ensure();
        usleep(static_cast<useconds_t>(random() % 5000));
      }
    } catch (const RedisUnavailable&) {
      ++tally.refused;  // its guardian may be killed at every start
    }
    usleep(static_cast<useconds_t>(random() % 200'000));
  }
}

// Promise redis/killed
TEST_F(EmbeddedRedisTest, RandomKillsLoseNothingThatWasAcknowledged) {
  constexpr size_t kUsers = 3;
  auto* tallies = static_cast<Tally*>(
      mmap(nullptr, kUsers * sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(tallies, MAP_FAILED);
  std::vector<pid_t> users(kUsers, -1);
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto begin_user = [&](size_t i) {
    const auto own_seed = static_cast<unsigned>(random());
    users[i] = fork();
    if (users[i] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      count_for_ever(root_, fmt::format("user{}", i), tallies[i], own_seed);
    }
  };
  for (size_t i = 0; i < kUsers; ++i) begin_user(i);
  int kills = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 200));
    EXPECT_LE(servers(root_).size(), 1U) << "two servers on the same files";
    const auto whom = random() % 3;
    if (whom == 0) {
      const size_t i = random() % kUsers;
      kill(users[i], SIGKILL);
      waitpid(users[i], nullptr, 0);
      begin_user(i);
    }
    for (const pid_t pid : whom == 1 ? servers(root_) : whom == 2 ? guardians(root_) : std::vector<pid_t>{}) {
      kill(pid, SIGKILL);
      ++kills;
    }
  }
  EXPECT_TRUE(eventually([&] {
    return std::all_of(tallies, tallies + kUsers, [](const Tally& tally) { return tally.acknowledged > 0; });
  }));
  for (const pid_t pid : users) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  const EmbeddedRedis redis(root_, kLinger);
  for (size_t i = 0; i < kUsers; ++i) {
    const auto answer = command(redis.url().socket, fmt::format("INCRBY user{} 0", i));
    ASSERT_EQ(answer.substr(0, 1), ":") << answer;
    const auto counted = std::stoll(answer.substr(1));
    EXPECT_GE(counted, tallies[i].acknowledged);
    EXPECT_LE(counted, tallies[i].sent);
    EXPECT_EQ(tallies[i].refused, 0) << "a start that nobody disturbed twice was refused";
  }
  EXPECT_GT(kills, 0);
  munmap(tallies, kUsers * sizeof(Tally));
}

}  // namespace
}  // namespace foretime::jobs
