#include "jobs/redis/embedded_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr int64_t kLogBytes = 4000;  // of redis.log in a message, at most
constexpr size_t kLogLines = 12;

constexpr char kConfiguration[] = R"(# Made by foretime at every start of this server; changes are lost.
port 0
unixsocket redis.sock
unixsocketperm 700
daemonize no
set-proc-title no
logfile redis.log
save ""
appendonly yes
appendfsync always
maxmemory-policy noeviction
)";

constexpr char kOwn[] = "or start a Redis of your own and name it with --redis or FORETIME_REDIS";

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
  if (error) fail(fmt::format("its parent cannot be made: {}; name another folder of runs, {}", error.message(), kOwn));
  if (mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST)
    fail(fmt::format("cannot be made: {}; name another folder of runs, {}", std::strerror(errno), kOwn));
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
        fmt::format("belongs to user {}, and this is user {}: whoever may use it could change jobs; name a folder of "
                    "runs of your own, {}",
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
  auto file = above_standard(openat(descriptor_.get(), name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) fail(fmt::format("{} cannot be opened: {}", name, std::strerror(errno)));
  return file;
}

void EmbeddedFolder::write_configuration() const {
  constexpr size_t kSize = sizeof(kConfiguration) - 1;
  const auto file = open_file("redis.conf.new", O_WRONLY | O_CREAT | O_TRUNC);
  if (write(file.get(), kConfiguration, kSize) != static_cast<ssize_t>(kSize) ||
      renameat(descriptor_.get(), "redis.conf.new", descriptor_.get(), "redis.conf") != 0)
    fail(fmt::format("redis.conf cannot be written: {}", std::strerror(errno)));
}

int64_t EmbeddedFolder::log_size() const {
  struct stat found {};
  return fstatat(descriptor_.get(), "redis.log", &found, AT_SYMLINK_NOFOLLOW) == 0 ? found.st_size : 0;
}

std::string EmbeddedFolder::end_of_log(int64_t from) const {
  const int64_t size = log_size();
  if (size < from) from = 0;  // it was emptied
  const int64_t begin = std::max(from, size - kLogBytes);
  if (size == 0 || begin >= size) return "";
  const auto file = open_file("redis.log", O_RDONLY);
  std::string text(static_cast<size_t>(size - begin), '\0');
  const ssize_t got = pread(file.get(), text.data(), text.size(), begin);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  size_t at = text.size();
  for (size_t line = 0; line < kLogLines && at != std::string::npos && at > 0; ++line) at = text.rfind('\n', at - 1);
  if (at != std::string::npos && at > 0) text.erase(0, at + 1);
  return text;
}

void EmbeddedFolder::fail(const std::string& what) const {
  throw RedisUnavailable(fmt::format("embedded Redis: {}: {}", path_.string(), what));
}

}  // namespace foretime::jobs
