#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/files.h"

namespace foretime::coordinator {

/// Reports that another process writes to the run directory. The message names its host and process id.
struct DirectoryInUse : ErrorOf<kUsage> {
  using ErrorOf::ErrorOf;
};

/// Holds the times of a lock: the interval of the holder's signs of life, the silence after which it is taken over from
/// another host, and the time that a new holder waits on a shared file system before it checks for a concurrent one.
struct LockTimes {
  std::chrono::milliseconds beat{10'000}, stale{45'000}, settle{500};
  std::chrono::milliseconds patience{3'600'000};  // a longer wait for a silent holder is refused
};

/// Locks a folder for writing by this process during its lifetime. `run.lock` in the folder names the holder. The
/// folder is an OwnedFolder (base/files.h) meanwhile.
///
/// On one machine the kernel holds the lock (an open-file-description lock, also over NFS with a lock service) and
/// releases it when the process ends. If another machine's kernel cannot be asked (NFS with `nolock` or `local_lock`),
/// the modification time of run.lock counts, which the holder renews: a lock of another machine is taken over if it has
/// not changed for LockTimes::stale. Only such a lock is waited for.
class RunLock {
 public:
  /// Makes the folder and takes the lock. Throws DirectoryInUse; configs::SettingsError if the folder cannot be made or
  /// written to, StorageError if the storage is the cause.
  explicit RunLock(const std::filesystem::path& folder, LockTimes times = {});
  /// Removes run.lock if it still belongs to this process.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  /// Tries to take the kernel's lock. Returns false if another process has it.
  bool try_lock();
  /// Returns whether the process that run.lock names has ended. Throws DirectoryInUse if it is alive.
  bool is_vacant();
  /// Returns whether run.lock names this process.
  bool is_ours() const;
  /// Renews the modification time of run.lock at each LockTimes::beat until the destructor runs.
  void beat();

  std::filesystem::path path_;
  LockTimes times_;
  Descriptor file_;
  bool kernel_locks_ = true;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ended_ = false;
  std::optional<OwnedFolder> owned_;
  std::thread beating_;
};

}  // namespace foretime::coordinator
