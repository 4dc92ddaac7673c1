#pragma once

#include <cstring>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/error.h"
#include "jobs/redis/embedded_redis.h"
#include "tests/support/message_of.h"
#include "tests/support/processes.h"
#include "tests/support/scratch.h"

/// What the tests of the embedded Redis share: its processes, users of it, and a connection to it.
namespace foretime::jobs::embedded {

namespace fs = std::filesystem;
using foretime::testing::eventually;
using foretime::testing::read_text;
using foretime::testing::Scratch;

constexpr double kLinger = 0.1;

/// Living processes of that name whose working folder is `folder`: guardians and servers have no other place.
inline std::vector<pid_t> processes(const std::string& name, const fs::path& folder) {
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
inline std::vector<pid_t> guardians(const fs::path& root) { return processes("ft-redis", root / ".redis"); }
inline std::vector<pid_t> servers(const fs::path& root) { return processes("redis-server", root / ".redis"); }
inline bool all_gone(const fs::path& root) {
  return eventually([&] { return guardians(root).empty() && servers(root).empty(); });
}

/// One command in Redis' inline form on a connection of its own, and its answer; "" where there is no Redis.
inline std::string command(const std::string& socket_path, const std::string& text) {
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_path.c_str(), sizeof(address.sun_path) - 1);
  const timeval patience{1200, 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  const std::string line = text + "\r\n";
  char answer[4096] = "";
  if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
      send(connection, line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size()))
    if (recv(connection, answer, sizeof(answer) - 1, 0) < 0) answer[0] = '\0';
  close(connection);
  return answer;
}

inline std::string refusal(const fs::path& root, double patience = 1200) {
  return testing::message_of<RedisUnavailable>([&] { const EmbeddedRedis redis(root, kLinger, patience); });
}

inline std::string loss(const fs::path& root) {
  return testing::message_of<RedisDataLost>([&] { const EmbeddedRedis redis(root, kLinger); });
}
/// Of the append-only file, the increment that is written to.
inline fs::path newest_increment(const fs::path& root) {
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(root / ".redis" / "appendonlydir"))
    if (entry.path().string().ends_with(".incr.aof")) newest = std::max(newest, entry.path());
  return newest;
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
    for (const pid_t pid : servers(root_)) kill(pid, SIGKILL);
  }
  fs::path folder() const { return root_ / ".redis"; }
  void make_folder() const {
    fs::create_directories(folder());
    fs::permissions(folder(), fs::perms::owner_all);
  }

  Scratch scratch_;
  fs::path root_;
};

}  // namespace foretime::jobs::embedded
