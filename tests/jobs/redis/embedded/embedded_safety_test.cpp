#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process.h"
#include "jobs/redis/redis_copy.h"
#include "tests/jobs/redis/embedded/embedded_fixture.h"
#include "tests/support/golden.h"

/// The embedded Redis opens no port, and notices when data of it are lost.
namespace foretime::jobs {
namespace {

using namespace embedded;
using ::testing::HasSubstr;

/// Inodes of the sockets of a process, from the names that its descriptors have.
std::vector<std::string> sockets_of(pid_t pid) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(fs::path("/proc") / std::to_string(pid) / "fd")) {
    std::error_code gone;
    const auto target = fs::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) found.push_back(target.substr(8, target.size() - 9));
  }
  return found;
}

/// Whether a process has a socket of IPv4 or IPv6.
bool has_port(pid_t pid) {
  const auto sockets = sockets_of(pid);
  for (const auto* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);)
      for (const auto& inode : sockets)
        if (line.find(" " + inode + " ") != std::string::npos) return true;
  }
  return false;
}

int free_port() {
  const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

class EmbeddedSafety : public EmbeddedRedisTest {
 protected:
  /// Puts a program `redis-server` before the real one in PATH, which gets its arguments and more ones.
  testing::Variable server_with(const std::string& more) {
    const auto program = scratch_.path() / "bin" / "redis-server";
    const auto real = find_program("redis-server");
    fs::create_directories(program.parent_path());
    std::ofstream(program) << "#!/bin/sh\nexec " << real << " \"$@\" " << more << "\n";
    fs::permissions(program, fs::perms::owner_all);
    return {"PATH", program.parent_path()};
  }
  /// A queue with some data, which has ended; with a base and increments where `rewritten`.
  void write_data(bool rewritten = false) {
    {
      const EmbeddedRedis redis(root_, kLinger);
      const auto socket = redis.url().socket;
      for (int i = 0; i < 50; ++i) command(socket, fmt::format("SET key{} value{}", i, i));
      if (rewritten) {
        std::vector<fs::path> replaced;
        for (const auto& file : fs::directory_iterator(folder() / "appendonlydir"))
          if (file.path() != manifest()) replaced.push_back(file.path());
        command(socket, "BGREWRITEAOF");
        ASSERT_TRUE(eventually(
            [&] { return std::ranges::none_of(replaced, [](const auto& file) { return fs::exists(file); }); }));
        command(socket, "SET late value");
      }
    }
    ASSERT_TRUE(all_gone(root_));
    ASSERT_TRUE(fs::exists(folder() / "written"));
  }
  int64_t keys() {
    const EmbeddedRedis redis(root_, kLinger);
    return std::stoll(command(redis.url().socket, "DBSIZE").substr(1));
  }
  fs::path manifest() const { return folder() / "appendonlydir" / "appendonly.aof.manifest"; }
  void accept_loss() {
    { const EmbeddedRedis redis(root_, kLinger, 60, true); }
    ASSERT_TRUE(all_gone(root_));
  }
};

// Promise redis/embedded-port: the embedded Redis opens no port, whatever its run root is called; a server that does is
// stopped
TEST_F(EmbeddedSafety, NoNameOfARunRootOpensAPort) {
  const auto base = fs::canonical(scratch_.path());
  for (const std::string& name :
       {std::string("glob[x]*?"), std::string("[ab]"), std::string("*"), std::string("?"), std::string("{a,b}$HOME"),
        std::string("with space"), std::string("a'b\"c"), std::string("new\nline"), std::string("%s%n"),
        std::string("back\\slash\\"), std::string("-dash"), std::string("--port 7"), std::string("ünï⚙"),
        std::string("redis-check-aof"), std::string("redis-sentinel"), std::string(255, 'x'), std::string("#; rm")}) {
    SCOPED_TRACE(name);
    root_ = base / "roots" / name / "runs";
    {
      const EmbeddedRedis redis(root_, kLinger);
      const auto server = servers(root_);
      ASSERT_EQ(server.size(), 1U);
      EXPECT_FALSE(has_port(server.front()));
      EXPECT_EQ(command(redis.url().socket, "CONFIG GET port"), "*2\r\n$4\r\nport\r\n$1\r\n0\r\n");
      EXPECT_EQ(command(redis.url().socket, "CONFIG GET bind"), "*2\r\n$4\r\nbind\r\n$9\r\n127.0.0.1\r\n");
      EXPECT_EQ(command(redis.url().socket, "SET name value"), "+OK\r\n");
    }
    ASSERT_TRUE(all_gone(root_));
    const EmbeddedRedis again(root_, kLinger);
    EXPECT_EQ(command(again.url().socket, "GET name"), "$5\r\nvalue\r\n");
  }
}

TEST_F(EmbeddedSafety, ARunRootWithoutASearchablePathIsRefusedInWords) {
  root_ = root_ / std::string(300, 'x');
  EXPECT_MESSAGE(refusal(root_));
  root_ = scratch_.path();
  for (int i = 0; i < 20; ++i) root_ /= std::string(250, 'y');
  EXPECT_MESSAGE(refusal(root_));
}

// Promise redis/embedded-port
TEST_F(EmbeddedSafety, AServerThatOpensAPortInSpiteOfItsArgumentsIsStopped) {
  const int port = free_port();
  std::string message;
  {
    const auto path = server_with(fmt::format("--port {}", port));
    message = refusal(root_);
  }
  EXPECT_THAT(message, HasSubstr("redis-server was stopped, because its setting port is not 0"));
  EXPECT_TRUE(all_gone(root_));
  EXPECT_EQ(refusal(root_), "no exception");
}

TEST_F(EmbeddedSafety, AServerWithOtherSettingsIsStopped) {
  for (const auto& [more, said] : std::map<std::string, std::string>{
           {"--appendfsync no", "its setting appendfsync is not always"},
           {"--bind 0.0.0.0", "its setting bind is not 127.0.0.1"},
           {"--protected-mode no", "its setting protected-mode is not yes"},
           {"--save \"60 1\"", "its setting save is not empty"},
           {"--maxmemory-policy allkeys-lru", "its setting maxmemory-policy is not noeviction"}}) {
    const auto path = server_with(more);
    EXPECT_THAT(refusal(root_), HasSubstr(said)) << more;
    EXPECT_TRUE(all_gone(root_));
  }
}

TEST_F(EmbeddedSafety, APortThatSomebodyOpensMeanwhileKeepsNewUsersAway) {
  const EmbeddedRedis redis(root_, kLinger);
  // Until then the guardian looks for it, too, and would stop the server.
  ASSERT_TRUE(eventually([&] { return fs::exists(folder() / "written"); }));
  ASSERT_EQ(command(redis.url().socket, fmt::format("CONFIG SET port {}", free_port())), "+OK\r\n");
  EXPECT_MESSAGE(refusal(root_));
  command(redis.url().socket, "CONFIG SET port 0");
  EXPECT_EQ(refusal(root_), "no exception");
}

/// Each way to lose data: what the refusal says, and how many of the 50 keys are left when the loss is accepted.
// Promise redis/embedded-data-lost: removed, cut or changed data of the embedded Redis are reported at its next start
TEST_F(EmbeddedSafety, DataThatAreLostAreReportedAndTheLossMayBeAccepted) {
  struct Loss {
    std::string name, said;
    std::function<void()> lose;
    int64_t fewest_left, most_left;
  };
  const auto increment = [&] { return newest_increment(root_); };
  const std::vector<Loss> losses = {
      {"manifest", "appendonly.aof.manifest is missing", [&] { fs::remove(manifest()); }, 50, 50},
      {"folder", "appendonlydir is missing", [&] { fs::remove_all(folder() / "appendonlydir"); }, 0, 0},
      {"emptied", "has 0 bytes, expected at least", [&] { fs::resize_file(increment(), 0); }, 0, 0},
      {"cut", "bytes, expected at least", [&] { fs::resize_file(increment(), fs::file_size(increment()) / 2); }, 20,
       30},
      {"file", "is missing, which had", [&] { fs::remove(increment()); }, 0, 0},
      {"flipped", "are not those that were written",
       [&] {
         auto text = read_text(increment());
         text[text.find("value7")] = 'w';
         testing::write_text(increment(), text);
       },
       50, 50},
      {"record", "written cannot be read", [&] { testing::write_text(folder() / "written", "garbage"); }, 50, 50},
      {"line of the record", "line 2 of written is damaged",
       [&] { testing::write_text(folder() / "written", "foretime-store 1\ni 1 a/b\n"); }, 50, 50}};
  const auto base = root_;
  for (const auto& loss_of : losses) {
    SCOPED_TRACE(loss_of.name);
    root_ = base / loss_of.name;
    write_data();
    loss_of.lose();
    for (int i = 0; i < 2; ++i)
      EXPECT_THAT(loss(root_), ::testing::AllOf(HasSubstr(loss_of.said), HasSubstr("--accept-loss")));
    EXPECT_TRUE(servers(root_).empty());
    EXPECT_FALSE(fs::exists(folder() / "owner")) << "another machine would wait for it";
    EXPECT_THAT(testing::message_of<RedisDataLost>([&] { const RedisCopy copy(root_); }), HasSubstr(loss_of.said));
    accept_loss();
    const auto left = keys();
    EXPECT_GE(left, loss_of.fewest_left);
    EXPECT_LE(left, loss_of.most_left);
    ASSERT_TRUE(all_gone(root_));
    EXPECT_EQ(loss(root_), "no exception") << "the next start finds what the last one left";
    ASSERT_TRUE(all_gone(root_));
  }
}

TEST_F(EmbeddedSafety, WhatARewriteReplacedIsNotMissed) {
  write_data(true);
  const auto before = read_text(folder() / "written");
  EXPECT_THAT(before, HasSubstr("b 1 appendonly.aof.1.base.rdb"));
  EXPECT_EQ(keys(), 51);
  ASSERT_TRUE(all_gone(root_));
  EXPECT_EQ(read_text(folder() / "written"), before) << "nothing was written";
  write_data(true);
  EXPECT_EQ(keys(), 51);
  ASSERT_TRUE(all_gone(root_));
  // A record of before the rewrite, as after a kill of the guardian.
  testing::write_text(folder() / "written", before);
  EXPECT_EQ(keys(), 51);
  ASSERT_TRUE(all_gone(root_));
  fs::remove(folder() / "appendonlydir" / "appendonly.aof.2.base.rdb");
  EXPECT_MESSAGE(loss(root_));
}

TEST_F(EmbeddedSafety, AFileWithoutAManifestIsNoNewQueueAlsoWhereNothingWasRecorded) {
  write_data();
  fs::remove(folder() / "written");
  fs::remove(manifest());
  EXPECT_THAT(loss(root_), HasSubstr("appendonly.aof.manifest is missing"));
  accept_loss();
  EXPECT_EQ(keys(), 50);
}

/// The record is there while the server runs, so that a guardian that is killed leaves one.
TEST_F(EmbeddedSafety, AGuardianThatIsKilledLeavesARecordThatHoldsWhatWasWrittenSince) {
  {
    const EmbeddedRedis redis(root_, kLinger);
    ASSERT_TRUE(eventually([&] { return fs::exists(folder() / "written"); }));
    for (int i = 0; i < 50; ++i) command(redis.url().socket, fmt::format("SET key{} value{}", i, i));
    for (const pid_t pid : guardians(root_)) kill(pid, SIGKILL);
    ASSERT_TRUE(all_gone(root_));
  }
  EXPECT_EQ(keys(), 50);
  ASSERT_TRUE(all_gone(root_));
}

// Promise redis/embedded-data-lost
TEST_F(EmbeddedSafety, AServerThatLostItsFilesIsNotStartedAgainWithoutThem) {
  EmbeddedRedis redis(root_, 30);
  ASSERT_TRUE(eventually([&] { return fs::exists(folder() / "written"); }));
  command(redis.url().socket, "SET name value");
  fs::rename(folder() / "appendonlydir", folder() / "gone");
  for (const pid_t pid : servers(root_)) kill(pid, SIGKILL);
  ASSERT_TRUE(all_gone(root_));
  EXPECT_MESSAGE(testing::message_of<RedisDataLost>([&] { redis.ensure(); }));
  fs::rename(folder() / "gone", folder() / "appendonlydir");
  redis.ensure();
  EXPECT_EQ(command(redis.url().socket, "GET name"), "$5\r\nvalue\r\n");
  for (const pid_t pid : guardians(root_)) kill(pid, SIGTERM);
}

}  // namespace
}  // namespace foretime::jobs
