#include "jobs/redis/embedded_redis.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/files.h"
#include "base/message.h"
#include "base/process.h"
#include "base/process_secrets.h"
#include "base/read_input.h"
#include "base/text.h"
#include "jobs/error.h"
#include "jobs/redis/embedded_guardian.h"
#include "jobs/redis/embedded_owner.h"
#include "jobs/redis/prepared_store.h"
#include "jobs/supervisor/supervisor_process.h"

namespace foretime::jobs {
namespace {

constexpr int64_t kLogBytes = 4000;  // most bytes of redis.log in a message
constexpr size_t kLogLines = 12;

constexpr char kOwn[] = "or start a Redis of your own and name it with --redis or FORETIME_REDIS";

constexpr uint64_t kLeastRoom = 1 << 20;  // bytes free, below which Redis would end at one of its next writes
constexpr int kAskMs = 1000;
constexpr auto kOtherHostPatience = std::chrono::seconds(2), kOpenPortPatience = std::chrono::seconds(2);

std::chrono::milliseconds milliseconds(double seconds) {
  constexpr double kLongest = 1e9;
  return milliseconds_of(std::clamp(seconds, 0.0, kLongest));
}

constexpr char kGuardianLine[] = "started\n";
bool has_given_up(const Descriptor& guardian) {
  struct stat found {};
  return fstat(guardian.get(), &found) == 0 && found.st_size == 0;
}

/// Finds the memory of this process's command line (proc(5): fields 48 and 49 of stat), where the guardian writes its
/// title: `pkill -f "foretime agent"` must not hit it.
void find_command_line(GuardianPlan& plan) {
  const auto stat = kernel_text("/proc/self/stat");
  const auto name_end = stat.rfind(')');
  if (name_end == std::string::npos) return;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 48; ++field) fields >> skipped;
  uintptr_t begin = 0, end = 0;
  if (!(fields >> begin >> end) || begin == 0 || end <= begin) return;
  plan.command_line = reinterpret_cast<char*>(begin);
  plan.command_line_size = end - begin;
}

}  // namespace

Descriptor above_standard(int descriptor) {
  Descriptor first(descriptor);
  if (descriptor < 0 || descriptor > 2) return first;
  return Descriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, 3));
}

EmbeddedFolder::EmbeddedFolder(const std::filesystem::path& root) {
  std::error_code error;
  path_ = (std::filesystem::absolute(root, error) / ".redis").lexically_normal();
  if (error) path_ = root / ".redis";
  std::filesystem::create_directories(path_.parent_path(), error);
  const bool has_parent = !error;
  if (has_parent && mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) error.assign(errno, std::generic_category());
  if (error) {
    const auto text = fmt::format("{}cannot be made: {}; name another folder of runs, {}",
                                  has_parent ? "" : "its parent ", error.message(), kOwn);
    if (!is_storage_failure(error.value())) fail(text);
    throw RedisStorageError("embedded Redis: {}: {}", path_.string(), text);
  }
  descriptor_ = above_standard(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  const int opened = errno;
  struct stat found {};
  if (descriptor_.get() < 0) {
    if (lstat(path_.c_str(), &found) == 0 && !S_ISDIR(found.st_mode))
      fail(fmt::format("is {}, expected a folder of our own; remove it, {}",
                       S_ISLNK(found.st_mode) ? "a symbolic link" : "no folder", kOwn));
    fail(fmt::format("cannot be opened: {}; name another folder of runs, {}", std::strerror(opened), kOwn));
  }
  if (fstat(descriptor_.get(), &found) != 0) fail(std::strerror(errno));
  if (found.st_uid != geteuid())
    fail(
        fmt::format("belongs to user {}, and this is user {}: "
                    "whoever may use it could change jobs; name a folder of runs of your own, {}",
                    found.st_uid, geteuid(), kOwn));
  if ((found.st_mode & 077) != 0)
    fail(fmt::format("has mode {:03o}, expected 700: others may use it, and could change jobs; chmod 700 it, {}",
                     found.st_mode & 0777, kOwn));
}

std::string EmbeddedFolder::socket() const {
  const auto plain = (path_ / "redis.sock").string();
  if (plain.size() < sizeof(sockaddr_un::sun_path)) return plain;
  return fmt::format("/proc/self/fd/{}/redis.sock", descriptor_.get());
}

Descriptor EmbeddedFolder::open_file(const std::string& name, int flags) const {
  auto file =
      above_standard(openat(descriptor_.get(), name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (file.get() < 0) fail_of(name + " cannot be opened", errno);
  return file;
}

std::string EmbeddedFolder::shortage() const {
  struct statvfs found {};
  if (fstatvfs(descriptor_.get(), &found) != 0) return "";
  if ((found.f_flag & ST_RDONLY) != 0)
    return fmt::format("its file system is mounted read-only; mount it for writing, name another folder of runs, {}",
                       kOwn);
  const uint64_t room = found.f_frsize * (geteuid() == 0 ? found.f_bfree : found.f_bavail);
  if (room >= kLeastRoom && found.f_files > 0 && found.f_ffree == 0)
    return fmt::format("its file system has none of its {} inodes left; remove files there, {}", found.f_files, kOwn);
  if (room >= kLeastRoom) return "";
  uint64_t held = 0;
  std::error_code failure;
  for (std::filesystem::directory_iterator at(path_ / "appendonlydir", failure), end; !failure && at != end;
       at.increment(failure)) {
    std::error_code gone;
    if (const auto bytes = at->file_size(gone); !gone) held += bytes;
  }
  constexpr double kMiB = 1 << 20;
  return fmt::format(
      "its file system is full: {:.1f} of {:.1f} MiB are free, and Redis needs {:.1f} MiB to continue (its append-only "
      "file has {:.1f} MiB and is rewritten now and then); make room there, for example among the runs in {}, {}",
      room / kMiB, (found.f_frsize * found.f_blocks) / kMiB, (kLeastRoom + held) / kMiB, held / kMiB,
      path_.parent_path().string(), kOwn);
}

int64_t EmbeddedFolder::log_size() const {
  struct stat found {};
  return fstatat(descriptor_.get(), "redis.log", &found, AT_SYMLINK_NOFOLLOW) == 0 ? found.st_size : 0;
}

std::string EmbeddedFolder::end_of_log(int64_t from) const {
  const int64_t size = log_size();
  if (size < from) from = 0;  // the log was emptied
  const int64_t begin = std::max(from, size - kLogBytes);
  if (size == 0 || begin >= size) return "";
  const auto file = open_file("redis.log", O_RDONLY);
  std::string text(size - begin, '\0');
  const ssize_t got = pread(file.get(), text.data(), text.size(), begin);
  text.resize(std::max<ssize_t>(got, 0));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  size_t at = text.size();
  for (size_t line = 0; line < kLogLines && at != std::string::npos && at > 0; ++line) at = text.rfind('\n', at - 1);
  if (at != std::string::npos && at > 0) text.erase(0, at + 1);
  return text;
}

void EmbeddedFolder::fail(const std::string& what) const {
  throw RedisUnavailable("embedded Redis: {}: {}", path_.string(), what);
}

void EmbeddedFolder::fail_of(const std::string& doing, int error) const {
  const auto what = fmt::format("{}: {}", doing, std::strerror(error));
  if (!is_storage_failure(error)) fail(what);
  auto why = shortage();
  if (why.empty() && error == EDQUOT) why = fmt::format("the quota is used up: make room within it, {}", kOwn);
  if (why.empty()) why = fmt::format("the storage failed; {}", kOwn + 3);
  throw RedisStorageError("embedded Redis: {}: {}: {}", path_.string(), what, why);
}

EmbeddedRedis::EmbeddedRedis(const std::filesystem::path& root, double linger_seconds, double patience_seconds,
                             bool accept_loss)
    : folder_(root),
      linger_(milliseconds(linger_seconds)),
      patience_(milliseconds(patience_seconds)),
      accept_loss_(accept_loss),
      users_(folder_.open_file("users.lock", O_RDWR | O_CREAT)) {
  lock(users_, "users.lock", LOCK_SH, deadline());  // waits where the guardian is just stopping the server
  ensure();
  accept_loss_ = false;
}

RedisUrl EmbeddedRedis::url() const { return {.socket = folder_.socket()}; }

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
        // Of a server that others started, somebody may have changed other settings on purpose.
        answer =
            ask_redis(socket.c_str(), kAskMs, std::span(kServerSettings).first(started ? kServerSettings.size() : 1));
        if (const auto owner = owner_of(folder_); owner && owner->boot != boot_id())
          elsewhere = fmt::format("{} (process {})", printable(owner->host), owner->pid);
      } else if (started && has_given_up(guardian)) {
        check_room();
        give_up("redis-server ended at once", log_from);
      } else {  // also where the guardian that we started was killed
        start_guardian(guardian, starting, limit);
        started = true;
      }
    }
    flock(starting.get(), LOCK_UN);
    if (answer == Answer::ready) return;
    const auto now = std::chrono::steady_clock::now();
    if (answer == Answer::none && !elsewhere.empty() && now - begin > kOtherHostPatience)
      folder_.fail(
          fmt::format("the server runs on host {}, and its socket reaches no other host ({}): run foretime there, or "
                      "start a Redis that all hosts reach and name it with --redis or FORETIME_REDIS",
                      elsewhere, host_name()));
    // The guardian stops a server that was started so.
    if (answer == Answer::wrong_settings && !started && now - begin > kOpenPortPatience)
      folder_.fail(
          fmt::format("its server has opened a port, which foretime never asks for: "
                      "close it (redis-cli -s {} CONFIG SET port 0), or end all commands that use this folder",
                      shell_word((folder_.path() / "redis.sock").string())));
    if (now > limit)
      give_up(answer == Answer::loading ? fmt::format("still loading its data after {:g} s", in_seconds)
                                        : fmt::format("no answer within {:g} s", in_seconds),
              log_from);
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(50));
  }
}

void EmbeddedRedis::check_room() const {
  if (const auto why = folder_.shortage(); !why.empty())
    throw RedisStorageError("embedded Redis: {}: {}", folder_.path().string(), why);
}

bool EmbeddedRedis::try_lock(const Descriptor& file, const char* name, int operation) const {
  while (flock(file.get(), operation | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR)
      folder_.fail(
          fmt::format("{} cannot be locked: {}; "
                      "name a folder of runs on a local disk, or a Redis of your own with --redis or FORETIME_REDIS",
                      name, std::strerror(errno)));
  }
  return true;
}

void EmbeddedRedis::lock(const Descriptor& file, const char* name, int operation, Deadline limit) const {
  while (!try_lock(file, name, operation)) {
    if (std::chrono::steady_clock::now() > limit)
      folder_.fail(
          fmt::format("{} was held by others for {:g} s: a server that does not end, or a start that does not come to "
                      "an end; look at the processes ft-redis and redis-server, and at {}",
                      name, std::chrono::duration<double>(patience_).count(), (folder_.path() / "redis.log").string()));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

StoreRecord EmbeddedRedis::prepare_store() const {
  const auto prepared = prepare_append_only(folder_, accept_loss_);
  if (prepared.repaired_manifest)
    print_message(
        "foretime: {}: the manifest of the queue's append-only file named files that are not there, "
        "as after a loss of power, and was repaired; "
        "if this folder is a copy that was taken while the queue was in use, its last changes may be missing\n",
        folder_.path().string());
  if (!prepared.accepted_losses.empty())
    print_message("foretime: {}: the queue continues with what is left: {}\n", folder_.path().string(),
                  fmt::join(prepared.accepted_losses, "; "));
  return prepared.record;
}

void EmbeddedRedis::start_guardian(const Descriptor& guardian, const Descriptor& starting, Deadline limit) const {
  const auto program = find_program("redis-server");
  if (program.empty())
    folder_.fail(
        "redis-server is in none of the folders of PATH: "
        "install it (apt install redis-server), or name a Redis that runs with --redis or FORETIME_REDIS");
  check_room();
  const auto owner = claim_ownership(folder_, starting, limit);
  // From here on nobody reaches a server that a killed guardian has left behind.
  unlinkat(folder_.descriptor(), "redis.sock", 0);
  if (pwrite(guardian.get(), kGuardianLine, sizeof(kGuardianLine) - 1, 0) < 0)
    folder_.fail_of("guardian.lock cannot be written", errno);

  const auto users = folder_.open_file("users.lock", O_RDWR);
  const auto server = folder_.open_file("server.lock", O_RDWR | O_CREAT);
  StoreRecord record;
  if (try_lock(server, "server.lock", LOCK_EX)) {  // or a server whose guardian was killed is still ending
    try {
      record = prepare_store();
    } catch (...) {
      unlinkat(folder_.descriptor(), "owner", 0);
      throw;
    }
    flock(server.get(), LOCK_UN);
  }
  const auto null = above_standard(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (null.get() < 0) folder_.fail(fmt::format("/dev/null cannot be opened: {}", std::strerror(errno)));

  // No argument holds a part of the folder's path, which Redis could take for a pattern.
  std::vector<std::string> words = {"redis-server"};
  for (const auto& setting : kServerSettings)
    words.insert(words.end(), {fmt::format("--{}", setting.name), setting.value});
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const auto title = "ft-redis " + folder_.path().string();

  const auto variables = environment_without_secrets();
  const auto environment = exec_pointers(variables);
  GuardianPlan plan{.server_path = program.c_str(),
                    .arguments = arguments.data(),
                    .environment = environment.data(),
                    .linger_ms = linger_.count(),
                    .folder = folder_.descriptor(),
                    .users_lock = users.get(),
                    .guardian_lock = guardian.get(),
                    .owner_file = owner.get(),
                    .server_lock = server.get(),
                    .dev_null = null.get(),
                    .title = title.c_str(),
                    .store_record = record};
  find_command_line(plan);
  pid_t between = -1;
  {
    const BlockedSignals blocked;
    between = safe_fork();
    if (between == 0) leave_guardian(plan);
  }
  if (between < 0) folder_.fail(fmt::format("fork: {}", std::strerror(errno)));
  int status = 0;
  const pid_t waited = TEMP_FAILURE_RETRY(waitpid(between, &status, 0));
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
