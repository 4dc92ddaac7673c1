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
#include "base/no_copy.h"

namespace foretime::coordinator {

/// Reports that another process writes to the run directory. The message names its host and process id.
struct DirectoryInUse : ErrorOf<kUsage> {
  using ErrorOf::ErrorOf;
};

/// Holds the times of a RunLock. They matter only if the kernel cannot show whether the holder lives.
struct LockTimes {
  std::chrono::milliseconds beat{10'000};   // interval at which the holder renews the time of run.lock
  std::chrono::milliseconds stale{45'000};  // age of run.lock after which another host takes the lock over
  std::chrono::milliseconds settle{500};    // wait of a new holder on a shared file system before it looks for a rival
  std::chrono::milliseconds patience{3'600'000};  // DirectoryInUse is thrown in place of a longer wait for `stale`
};

/// Locks a folder for writing by this process until the destructor runs. The file `run.lock` in the folder names the
/// holder. Meanwhile the folder is an OwnedFolder (base/files.h).
///
/// On one machine the kernel holds the lock (an open-file-description lock, also over NFS with a lock service) and
/// releases it when the process ends. If another machine's kernel cannot be asked (NFS with `nolock` or `local_lock`),
/// the modification time of run.lock counts, which the holder renews: the constructor waits, and takes over the lock of
/// another machine if run.lock has not changed for LockTimes::stale.
class RunLock : NoCopy {
 public:
  /// Makes the folder and takes the lock. Throws DirectoryInUse if another process holds the lock;
  /// configs::SettingsError if the folder cannot be made or written to, StorageError if the storage is the cause.
  explicit RunLock(const std::filesystem::path& folder, LockTimes times = {});
  /// Removes run.lock if it still belongs to this process.
  ~RunLock();

 private:
  /// Opens run.lock and takes the kernel's lock, where there are such locks. Returns false if run.lock was removed
  /// meanwhile. Throws DirectoryInUse if another process has the lock.
  bool try_lock();
  /// Returns true if run.lock names no process, or one that has ended or is silent (LockTimes::stale), for which it
  /// waits; false if run.lock was replaced meanwhile. Throws DirectoryInUse if the process is alive.
  bool is_vacant();
  /// Returns whether run.lock names this process; false if it cannot be read.
  bool is_ours() const;
  /// Renews the modification time of run.lock at each LockTimes::beat until the destructor runs.
  void beat();

  std::filesystem::path path_;  // path of run.lock
  LockTimes times_;
  Descriptor file_;           // run.lock, open and, where possible, locked
  bool kernel_locks_ = true;  // true: the kernel holds the lock
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ended_ = false;
  std::optional<OwnedFolder> owned_;
  std::thread beating_;
};

}  // namespace foretime::coordinator
