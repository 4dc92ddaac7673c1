#pragma once

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/redis/redis_url.h"

namespace foretime::testing {

/// A real redis-server of one test, on a Unix socket in a folder of its own under /tmp (short enough for a socket's
/// address). It ends with the test, also when the test dies: start it from a thread that lives as long as it shall,
/// since PR_SET_PDEATHSIG looks at the starting thread.
class RedisServer {
 public:
  struct Options {
    bool appendonly = true;
    std::string appendfsync = "no";     // what reached the kernel survives kill9() all the same
    std::vector<std::string> config{};  // more lines of redis.conf; they win
  };

  RedisServer() : RedisServer(Options{}) {}
  explicit RedisServer(Options options) : options_(std::move(options)) {
    std::string name = (std::filesystem::temp_directory_path() / "foretime-redis-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp " + name + ": " + std::strerror(errno));
    folder_ = name;
    try {
      start();
    } catch (...) {
      end(SIGKILL);
      std::filesystem::remove_all(folder_);
      throw;
    }
  }
  ~RedisServer() {
    end(SIGKILL);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path socket() const { return folder_ / "redis.sock"; }
  jobs::RedisUrl url() const {
    jobs::RedisUrl url;
    url.socket = socket().string();
    return url;
  }
  pid_t pid() const { return pid_; }

  void kill9() { end(SIGKILL); }
  void stop() { end(SIGTERM); }
  /// Starts it on the same data, after killing it where it still runs.
  void restart() {
    end(SIGKILL);
    start();
  }
  /// Replaces the extra lines of redis.conf from the next start on.
  void set_config(std::vector<std::string> config) { options_.config = std::move(config); }

 private:
  void start() {
    const auto configuration = folder_ / "redis.conf";
    {
      std::ofstream out(configuration);
      out << "port 0\nunixsocket redis.sock\nunixsocketperm 700\ndir " << folder_.string()
          << "\nlogfile redis.log\nsave \"\"\nmaxmemory-policy noeviction\nappendonly "
          << (options_.appendonly ? "yes" : "no") << "\nappendfsync " << options_.appendfsync << "\n";
      for (const auto& line : options_.config) out << line << "\n";
    }
    unlink(socket().c_str());
    const std::string path = configuration.string();
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(127);
      if (chdir(folder_.c_str()) != 0) _exit(127);
      const int nothing = open("/dev/null", O_RDWR);
      dup2(nothing, 0);
      dup2(nothing, 1);
      dup2(nothing, 2);
      close_range(3, ~0U, 0);
      execlp("redis-server", "redis-server", path.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(20);
    while (!answers()) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        throw std::runtime_error("redis-server ended at once; is it installed? Its log: " + log());
      }
      if (std::chrono::steady_clock::now() > limit) throw std::runtime_error("redis-server did not answer: " + log());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  /// An answer other than LOADING; one that asks for a password will do.
  bool answers() const {
    const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket().c_str(), sizeof address.sun_path - 1);
    const timeval patience{2, 0};
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char answer[64] = "";
    const bool reached = connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                         send(descriptor, "PING\r\n", 6, MSG_NOSIGNAL) == 6 &&
                         recv(descriptor, answer, sizeof answer - 1, 0) > 0;
    close(descriptor);
    return reached && std::strncmp(answer, "-LOADING", 8) != 0;
  }

  void end(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }

  std::string log() const {
    std::ostringstream text;
    text << std::ifstream(folder_ / "redis.log").rdbuf();
    return text.str();
  }

  Options options_;
  std::filesystem::path folder_;
  pid_t pid_ = -1;
};

}  // namespace foretime::testing
