#include "jobs/redis/embedded_owner.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/message.h"
#include "base/numbers.h"
#include "base/process.h"
#include "base/text.h"
#include "jobs/redis/embedded_redis.h"

namespace foretime::jobs {
namespace {

constexpr char kOwnerFile[] = "owner";
constexpr std::chrono::milliseconds kOwnerLook{250};

std::chrono::nanoseconds modified(const struct stat& status) {
  return std::chrono::seconds(status.st_mtim.tv_sec) + std::chrono::nanoseconds(status.st_mtim.tv_nsec);
}

/// Returns the time by the clock of whoever stores the folder.
std::chrono::nanoseconds file_system_time(const EmbeddedFolder& folder, const Descriptor& start_lock) {
  struct stat status {};
  if (futimens(start_lock.get(), nullptr) != 0 || fstat(start_lock.get(), &status) != 0)
    folder.fail_of("start.lock cannot be touched", errno);
  return modified(status);
}

[[noreturn]] void refuse(const EmbeddedFolder& folder, const FolderOwner& owner) {
  folder.fail(
      fmt::format("process {} on host {} serves it, and its locks are not seen here ({}), "
                  "as on a mount of NFS with nolock or local_lock: run foretime there, "
                  "or start a Redis that all hosts reach and name it with --redis or FORETIME_REDIS",
                  owner.pid, printable(owner.host), host_name()));
}

/// Returns whether that guardian of another machine shows no sign of life. False: its file was replaced.
bool is_silent(const EmbeddedFolder& folder, const FolderOwner& owner, const Descriptor& start_lock,
               std::chrono::steady_clock::time_point limit) {
  auto age = file_system_time(folder, start_lock) - owner.touched;
  if (age < kOwnerStale)
    print_message("foretime: {}: process {} on {} was the last to serve it; looking for signs of life, up to {} s\n",
                  folder.path().string(), owner.pid, printable(owner.host), kOwnerStale.count());
  for (; age < kOwnerStale; age += kOwnerLook) {
    if (std::chrono::steady_clock::now() > limit) refuse(folder, owner);
    std::this_thread::sleep_for(kOwnerLook);
    const auto now = owner_of(folder);
    if (!now || now->inode != owner.inode) return false;
    if (now->touched != owner.touched) refuse(folder, *now);
  }
  return true;
}

/// Removes that file and no other: somebody else may have put a new one in its place.
void remove_owner(const EmbeddedFolder& folder, const FolderOwner& owner) {
  const int at = folder.descriptor();
  const auto aside = fmt::format("{}.{}.{}", kOwnerFile, host_name(), getpid());
  struct stat moved {};
  if (renameat(at, kOwnerFile, at, aside.c_str()) != 0) {
    if (errno == ENOENT) return;
    folder.fail_of("owner cannot be replaced", errno);
  }
  if (fstatat(at, aside.c_str(), &moved, AT_SYMLINK_NOFOLLOW) == 0 && moved.st_ino != owner.inode) [[maybe_unused]]
    const int back = linkat(at, aside.c_str(), at, kOwnerFile, 0);
  unlinkat(at, aside.c_str(), 0);
}

}  // namespace

std::optional<FolderOwner> owner_of(const EmbeddedFolder& folder) {
  const Descriptor file(openat(folder.descriptor(), kOwnerFile, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (file.get() < 0 && errno == ENOENT) return std::nullopt;
  if (file.get() < 0) folder.fail_of("owner cannot be opened", errno);
  if (fstat(file.get(), &status) != 0) folder.fail_of("owner cannot be read", errno);
  std::array<char, 1024> bytes{};
  const ssize_t got = TEMP_FAILURE_RETRY(pread(file.get(), bytes.data(), bytes.size(), 0));
  if (got < 0) folder.fail_of("owner cannot be read", errno);
  const std::string_view text(bytes.data(), got);
  const auto host_end = text.find('\n'), boot_end = text.find('\n', host_end + 1);
  FolderOwner owner;
  owner.inode = status.st_ino;
  owner.touched = modified(status);
  if (host_end == std::string_view::npos || boot_end == std::string_view::npos) return owner;
  owner.host = text.substr(0, host_end);
  owner.boot = text.substr(host_end + 1, boot_end - host_end - 1);
  auto digits = text.substr(boot_end + 1);
  owner.pid = take_number<int64_t>(digits).value_or(0);
  return owner;
}

Descriptor claim_ownership(const EmbeddedFolder& folder, const Descriptor& start_lock,
                           std::chrono::steady_clock::time_point limit) {
  for (;;) {
    Descriptor mine = above_standard(
        openat(folder.descriptor(), kOwnerFile, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (mine.get() >= 0) {
      const auto text = host_name() + "\n" + boot_id() + "\n";
      if (write(mine.get(), text.data(), text.size()) == std::ssize(text)) return mine;
      const int error = errno;
      unlinkat(folder.descriptor(), kOwnerFile, 0);
      folder.fail_of("owner cannot be written", error);
    }
    if (errno != EEXIST) folder.fail_of("owner cannot be made", errno);
    const auto owner = owner_of(folder);
    if (owner && (owner->boot == boot_id() || is_silent(folder, *owner, start_lock, limit)))
      remove_owner(folder, *owner);
  }
}

}  // namespace foretime::jobs
