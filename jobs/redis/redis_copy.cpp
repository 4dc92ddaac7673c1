#include "jobs/redis/redis_copy.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/process.h"
#include "jobs/error.h"
#include "jobs/redis/embedded_guardian.h"
#include "jobs/redis/embedded_redis.h"
#include "jobs/redis/prepared_store.h"
#include "jobs/supervisor/supervisor_process.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;

constexpr char kCopied[] = "appendonlydir";
constexpr auto kCopyPatience = std::chrono::seconds(60);
constexpr int kCopyAskMs = 200;

}  // namespace

RedisCopy::RedisCopy(const fs::path& root) {
  const EmbeddedFolder original(root);
  check_nothing_lost(original);
  if (!files().exists(original.path() / kCopied)) original.fail("nothing was submitted there yet");
  try {
    make_folder(original.path() / kCopied);
    start();
  } catch (...) {
    end();
    throw;
  }
}

RedisCopy::~RedisCopy() { end(); }

void RedisCopy::make_folder(const fs::path& data) {
  std::error_code failure;
  std::string said;
  for (const auto& parent : {fs::temp_directory_path(failure), fs::path("/dev/shm")}) {
    auto name = (parent / "foretime-queue-XXXXXX").string();
    if (parent.empty() || mkdtemp(name.data()) == nullptr) continue;
    folder_ = name;
    fs::copy(data, folder_ / kCopied, failure);  // Redis skips a half-written command at the end
    if (!failure) return;
    said += fmt::format("; {}: {}", parent.string(), failure.message());
    fs::remove_all(folder_, failure);
    folder_.clear();
  }
  throw RedisUnavailable("{}: cannot be copied to be read{}", data.string(), said);
}

void RedisCopy::start() {
  const auto program = find_program("redis-server");
  if (program.empty()) throw RedisUnavailable("redis-server is in none of the folders of PATH: install it");
  const auto socket = url().socket, log = (folder_ / "redis.log").string();
  // Every write asks for a replica, and there never is one.
  std::array<std::string, 25> words = {program,
                                       "--port",
                                       "0",
                                       "--dir",
                                       folder_.string(),
                                       "--unixsocket",
                                       socket,
                                       "--unixsocketperm",
                                       "700",
                                       "--logfile",
                                       log,
                                       "--daemonize",
                                       "no",
                                       "--save",
                                       "",
                                       "--appendonly",
                                       "yes",
                                       "--appendfsync",
                                       "no",
                                       "--auto-aof-rewrite-percentage",
                                       "0",
                                       "--min-replicas-to-write",
                                       "1",
                                       "--maxmemory-policy",
                                       "noeviction"};
  std::array<char*, words.size() + 1> arguments{};
  for (size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  const pid_t self = getpid();
  server_ = safe_fork();
  if (server_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self) _exit(127);
    setpgid(0, 0);  // Ctrl-C is for the command
    execv(program.c_str(), arguments.data());
    _exit(127);
  }
  if (server_ < 0) throw RedisUnavailable("a Redis to read with cannot be started: no process can be made");
  const auto limit = std::chrono::steady_clock::now() + kCopyPatience;
  while (ask_redis(socket.c_str(), kCopyAskMs) != Answer::ready) {
    const bool gone = waitpid(server_, nullptr, WNOHANG) != 0;
    if (gone) server_ = -1;
    if (gone || std::chrono::steady_clock::now() > limit) {
      std::string said;
      try {
        said = files().read(log);
      } catch (const FileError&) {
      }
      throw RedisUnavailable("a copy of the queue, made to be read, {}; redis-server says:\n{}",
                             gone ? "cannot be opened" : "takes too long to load",
                             said.size() > 2000 ? said.substr(said.size() - 2000) : said);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void RedisCopy::end() {
  if (server_ > 0) {
    kill(server_, SIGKILL);
    waitpid(server_, nullptr, 0);
  }
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

}  // namespace foretime::jobs
