#include "coordinator/run_lock.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>
#include <sstream>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "base/files.h"
#include "base/message.h"
#include "base/process.h"
#include "base/read_input.h"
#include "base/text.h"
#include "configs/load.h"

namespace foretime::coordinator {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Returns the start time of a process in ticks since the machine started, which distinguishes it from later processes
/// with its number; "" if there is no such process.
std::string start_of(int64_t pid) {
  const auto text = kernel_text(fmt::format("/proc/{}/stat", pid));
  const auto name_end = text.rfind(')');  // the name may hold blanks
  if (name_end == std::string::npos) return "";
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 0; i < 20; ++i) fields >> field;  // state is field 3, starttime is field 22
  return field;
}

struct Holder {
  std::string host, kernel, start, since;
  int64_t pid = 0;
};

[[noreturn]] void fail(const fs::path& path, const char* doing, int error) {
  if (is_storage_failure(error)) throw_file_error(path, doing, error);
  throw configs::SettingsError("run.directory: {}: {}: {}; name a folder that can be written to", path.string(), doing,
                               std::strerror(error));
}

/// Returns the holder that a lock file names; nullopt if RunLock did not write it. Throws as fail() does if the file
/// cannot be read, since it may name a living holder.
std::optional<Holder> holder_in(const fs::path& lock, int file) {
  std::array<char, 4096> text{};
  const ssize_t size = TEMP_FAILURE_RETRY(::pread(file, text.data(), text.size(), 0));
  if (size < 0) fail(lock, "cannot be read", errno);
  const auto json = Json::parse(text.data(), text.data() + size, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto word = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto pid = json.find("pid");
  if (pid == json.end() || !pid->is_number_integer()) return std::nullopt;
  return Holder{word("host"), word("kernel"), word("start"), word("since"), pid->get<int64_t>()};
}

/// Returns the holder that the file `lock` names; nullopt if the file does not exist or RunLock did not write it.
std::optional<Holder> holder_at(const fs::path& lock) {
  const Descriptor there(::open(lock.c_str(), O_RDONLY | O_CLOEXEC));  // NFS asks its server when a file is opened
  if (there.get() < 0 && errno != ENOENT) fail(lock, "cannot be read", errno);
  return there.get() < 0 ? std::nullopt : holder_in(lock, there.get());
}

bool is_this_process(const std::optional<Holder>& holder) {
  return holder && holder->pid == getpid() && holder->kernel == boot_id();
}

[[noreturn]] void refuse(const fs::path& lock, const std::optional<Holder>& holder) {
  const auto folder = lock.parent_path().string();
  if (!holder)
    throw DirectoryInUse("{}: another process writes to this run directory; wait for it, or name another run.directory",
                         folder);
  throw DirectoryInUse(
      "{}: process {} on {} writes to this run directory, since {} UTC ({}); "
      "wait for it, end it, or name another run.directory",
      folder, holder->pid, printable(holder->host), printable_utf8(holder->since), lock.filename().string());
}

/// Returns the time of a file's last change, by the clock of its storage.
std::chrono::nanoseconds modified(const struct stat& status) {
  return std::chrono::seconds(status.st_mtim.tv_sec) + std::chrono::nanoseconds(status.st_mtim.tv_nsec);
}

/// Returns the time now by the clock of the storage of `lock`. Throws as fail() does if it cannot be written.
std::chrono::nanoseconds time_there(const fs::path& lock) {
  const auto path = fmt::format("{}.{}.{}", lock.string(), host_name(), getpid());
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  struct stat status {};
  const bool written = file.get() >= 0 && ::write(file.get(), "\n", 1) == 1 && ::fsync(file.get()) == 0 &&
                       ::fstat(file.get(), &status) == 0;
  const int error = errno;
  if (file.get() >= 0) ::unlink(path.c_str());
  if (!written) fail(path, "cannot be written", error);
  return modified(status);
}

}  // namespace

RunLock::RunLock(const fs::path& folder, LockTimes times) : path_(folder / "run.lock"), times_(times) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) fail(folder, "cannot be made", failure.value());
  while (!try_lock() || !is_vacant()) {
  }
  const Json holder = {{"host", host_name()},
                       {"pid", getpid()},
                       {"since", fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(std::time(nullptr)))},
                       {"kernel", boot_id()},
                       {"start", start_of(getpid())}};
  const auto text = holder.dump() + "\n";
  if (::ftruncate(file_.get(), 0) != 0 || ::pwrite(file_.get(), text.data(), text.size(), 0) < 0 ||
      ::fsync(file_.get()) != 0)
    fail(path_, "cannot be written", errno);
  if (times_.settle.count() > 0 && is_shared(file_.get())) {
    // Two machines whose kernels do not ask each other may both have found it vacant: the one that wrote last has it.
    std::this_thread::sleep_for(times_.settle);
    if (const auto holder = holder_at(path_); !is_this_process(holder)) refuse(path_, holder);
  }
  owned_.emplace(folder);
  const BlockedSignals blocked;
  beating_ = std::thread([this] { beat(); });
}

RunLock::~RunLock() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ends_.notify_all();
  beating_.join();
  if (is_ours()) ::unlink(path_.c_str());  // while it is locked: who opened it meanwhile sees that it has gone
}

/// Another machine may have taken over the lock of this process after a long stop.
bool RunLock::is_ours() const {
  try {
    return is_this_process(holder_at(path_));
  } catch (const Error&) {
    return false;  // nobody knows; the next beat looks again
  }
}

bool RunLock::try_lock() {
  file_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (file_.get() < 0) fail(path_, "cannot be opened", errno);
  const auto state = try_to_lock(file_.get());
  if (state == LockState::held) refuse(path_, holder_in(path_, file_.get()));
  kernel_locks_ = state == LockState::taken;
  if (!kernel_locks_ && is_storage_failure(errno)) throw_file_error(path_, "cannot be locked", errno);
  struct stat own {
  }, there{};
  if (::fstat(file_.get(), &own) != 0) fail(path_, "cannot be examined", errno);
  if (::stat(path_.c_str(), &there) == 0) return own.st_ino == there.st_ino;
  if (errno != ENOENT) fail(path_, "cannot be examined", errno);
  return false;
}

bool RunLock::is_vacant() {
  const auto holder = holder_in(path_, file_.get());
  if (!holder) return true;
  if (holder->kernel == boot_id()) {
    const bool alive = !kernel_locks_ && !holder->start.empty() && start_of(holder->pid) == holder->start;
    if (alive) refuse(path_, holder);
    return true;
  }
  struct stat first {};
  if (::fstat(file_.get(), &first) != 0) fail(path_, "cannot be read", errno);
  auto age = time_there(path_) - modified(first);
  if (times_.stale - age > times_.patience) refuse(path_, holder);
  if (age < times_.stale)
    print_message("foretime: {}: held by process {} on {}; looking for signs of life, up to {:.0f} s\n", path_.string(),
                  holder->pid, printable(holder->host), std::chrono::duration<double>(times_.stale).count());
  for (; age < times_.stale; age += times_.beat / 4) {
    std::this_thread::sleep_for(times_.beat / 4);
    struct stat now {};
    const Descriptor again(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));  // NFS asks its server when a file is opened
    if (again.get() < 0 || ::fstat(again.get(), &now) != 0 || now.st_ino != first.st_ino) return false;
    if (modified(now) != modified(first)) refuse(path_, holder_in(path_, again.get()));
  }
  return true;
}

void RunLock::beat() {
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, times_.beat, [this] { return ended_; }))
    if (is_ours()) ::futimens(file_.get(), nullptr);
}

}  // namespace foretime::coordinator
