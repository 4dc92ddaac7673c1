#include "jobs/redis/embedded_redis.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "base/descriptor.h"
#include "jobs/error.h"
#include "jobs/redis/embedded_guardian.h"
#include "jobs/supervisor/supervisor_process.h"

namespace foretime::jobs {
namespace {

constexpr int kAskMs = 1000;
constexpr auto kOtherHostPatience = std::chrono::seconds(2);

std::chrono::milliseconds milliseconds(double seconds) {
  constexpr double kLongest = 1e9;
  return std::chrono::milliseconds(seconds > 0 ? static_cast<int64_t>(1e3 * std::min(seconds, kLongest)) : 0);
}

/// "" where it is in none of the folders of PATH.
std::string find_server() {
  const char* own = std::getenv("PATH");
  const std::string path = own != nullptr ? own : "/usr/bin:/bin";
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const auto candidate = std::filesystem::path(path.substr(begin, end - begin)) / "redis-server";
    std::error_code error;
    if (candidate.is_absolute() && access(candidate.c_str(), X_OK) == 0 &&
        !std::filesystem::is_directory(candidate, error))
      return candidate.string();
    begin = end + 1;
  }
  return "";
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "unnamed";
}

/// The host whose guardian holds or held this guardian.lock; "" where that guardian has given up.
std::string host_in(const Descriptor& guardian) {
  std::array<char, 256> text{};
  const auto got = pread(guardian.get(), text.data(), text.size() - 1, 0);
  const std::string content(text.data(), got > 0 ? static_cast<size_t>(got) : 0);
  return content.substr(0, content.find('\n'));
}

/// Where the kernel finds this process's command line (proc(5): fields 48 and 49 of stat). The guardian puts its own
/// text there: `pkill -f "foretime agent"` must not hit it, and a list of processes should say what it is.
void find_title(GuardianPlan& plan) {
  std::stringstream text;
  text << std::ifstream("/proc/self/stat").rdbuf();
  const auto stat = text.str();
  const auto name_end = stat.rfind(')');
  if (name_end == std::string::npos) return;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 48; ++field) fields >> skipped;
  uintptr_t begin = 0, end = 0;
  if (!(fields >> begin >> end) || begin == 0 || end <= begin) return;
  plan.title = reinterpret_cast<char*>(begin);
  plan.title_size = end - begin;
}

}  // namespace

EmbeddedRedis::EmbeddedRedis(const std::filesystem::path& root, double linger_seconds, double patience_seconds)
    : folder_(root),
      linger_(milliseconds(linger_seconds)),
      patience_(milliseconds(patience_seconds)),
      users_(folder_.open_file("users.lock", O_RDWR | O_CREAT)) {
  lock(users_, "users.lock", LOCK_SH, deadline());  // waits where the guardian is just stopping the server
  ensure();
}

RedisUrl EmbeddedRedis::url() const {
  RedisUrl url;
  url.socket = folder_.socket();
  return url;
}

EmbeddedRedis::Deadline EmbeddedRedis::deadline() const { return std::chrono::steady_clock::now() + patience_; }

void EmbeddedRedis::ensure() {
  const auto begin = std::chrono::steady_clock::now();
  const auto limit = deadline();
  const auto log_from = folder_.log_size();
  const auto socket = folder_.socket();
  const auto starting = folder_.open_file("start.lock", O_RDWR | O_CREAT);
  const auto in_seconds = std::chrono::duration<double>(patience_).count();
  auto pause = std::chrono::milliseconds(5);
  for (bool started = false;;) {
    // Under start.lock, since a server that answers is worth nothing if its guardian has gone: it is about to end.
    lock(starting, "start.lock", LOCK_EX, limit);
    auto answer = Answer::none;
    std::string elsewhere;
    {
      const auto guardian = folder_.open_file("guardian.lock", O_RDWR | O_CREAT);
      if (!try_lock(guardian, "guardian.lock", LOCK_EX)) {
        answer = ask_redis(socket.c_str(), kAskMs);
        elsewhere = host_in(guardian);
        if (elsewhere == host_name()) elsewhere.clear();
      } else if (started && host_in(guardian).empty()) {
        give_up("redis-server ended at once", log_from);
      } else {  // also where the guardian that we started was killed
        start_guardian(guardian);
        started = true;
      }
    }
    flock(starting.get(), LOCK_UN);
    if (answer == Answer::ready) return;
    const auto now = std::chrono::steady_clock::now();
    if (answer == Answer::none && !elsewhere.empty() && now - begin > kOtherHostPatience)
      folder_.fail(
          fmt::format("the server runs on host {}, and its socket reaches no other host ({}): run foretime "
                      "there, or start a Redis that all hosts reach and name it with --redis or FORETIME_REDIS",
                      elsewhere, host_name()));
    if (now > limit)
      give_up(answer == Answer::loading ? fmt::format("still loading its data after {:g} s", in_seconds)
                                        : fmt::format("no answer within {:g} s", in_seconds),
              log_from);
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(50));
  }
}

bool EmbeddedRedis::try_lock(const Descriptor& file, const char* name, int operation) const {
  while (flock(file.get(), operation | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR)
      folder_.fail(
          fmt::format("{} cannot be locked: {}; name a folder of runs on a local disk, or a Redis of your own "
                      "with --redis or FORETIME_REDIS",
                      name, std::strerror(errno)));
  }
  return true;
}

void EmbeddedRedis::lock(const Descriptor& file, const char* name, int operation, Deadline limit) const {
  while (!try_lock(file, name, operation)) {
    if (std::chrono::steady_clock::now() > limit)
      folder_.fail(
          fmt::format("{} was held by others for {:g} s: a server that does not end, or a start that does not "
                      "come to an end; look at the processes ft-redis and redis-server, and at {}",
                      name, std::chrono::duration<double>(patience_).count(), (folder_.path() / "redis.log").string()));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void EmbeddedRedis::start_guardian(const Descriptor& guardian) const {
  const auto program = find_server();
  if (program.empty())
    folder_.fail(
        "redis-server is in none of the folders of PATH: install it (apt install redis-server), or name a "
        "Redis that runs with --redis or FORETIME_REDIS");
  folder_.write_configuration();
  // From here on nobody reaches a server that a killed guardian has left behind.
  unlinkat(folder_.descriptor(), "redis.sock", 0);
  const auto host = host_name() + "\n";
  if (ftruncate(guardian.get(), 0) != 0 || pwrite(guardian.get(), host.data(), host.size(), 0) < 0)
    folder_.fail(fmt::format("guardian.lock cannot be written: {}", std::strerror(errno)));

  const auto users = folder_.open_file("users.lock", O_RDWR);
  const auto server = folder_.open_file("server.lock", O_RDWR | O_CREAT);
  const auto null = above_standard(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (null.get() < 0) folder_.fail(fmt::format("/dev/null cannot be opened: {}", std::strerror(errno)));

  // The whole path, so that a list of processes says whose server it is.
  std::string name = "redis-server", configuration = (folder_.path() / "redis.conf").string();
  const std::array<char*, 3> arguments{name.data(), configuration.data(), nullptr};
  const auto title = "ft-redis " + folder_.path().string();

  GuardianPlan plan;
  plan.program = program.c_str();
  plan.arguments = arguments.data();
  plan.environment = environ;
  plan.linger_ms = linger_.count();
  plan.folder = folder_.descriptor();
  plan.users = users.get();
  plan.guardian = guardian.get();
  plan.server = server.get();
  plan.null = null.get();
  plan.title_text = title.c_str();
  find_title(plan);
  pid_t between = -1;
  {
    const BlockedSignals blocked;
    between = safe_fork();
    if (between == 0) leave_guardian(plan);
  }
  if (between < 0) folder_.fail(fmt::format("fork: {}", std::strerror(errno)));
  int status = 0;
  pid_t waited = 0;
  while ((waited = waitpid(between, &status, 0)) < 0 && errno == EINTR) continue;
  if (waited == between && status != 0)
    folder_.fail(fmt::format("fork: {}", std::strerror(WIFEXITED(status) ? WEXITSTATUS(status) : EINTR)));
}

void EmbeddedRedis::give_up(const std::string& what, int64_t log_from) const {
  const auto log = folder_.end_of_log(log_from);
  folder_.fail(fmt::format(
      "{}; {} {}", what, (folder_.path() / "redis.log").string(),
      log.empty() ? "says nothing; name a Redis of your own with --redis or FORETIME_REDIS" : "ends with:\n" + log));
}

}  // namespace foretime::jobs
