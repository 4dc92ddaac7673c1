#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "base/descriptor.h"
#include "base/error.h"

namespace foretime::coordinator {

/// Another process writes to the run directory. The message names its host and number.
struct DirectoryInUse : ErrorOf<kUsage> {
  using ErrorOf::ErrorOf;
};

/// How often a lock shows that its holder lives, after how long a silence it is taken over from another host, and how
/// long a new holder waits on a shared file system before it looks whether another machine has written too.
struct LockTimes {
  std::chrono::milliseconds beat{10'000}, stale{45'000}, settle{500};
  std::chrono::milliseconds patience{3'600'000};  // a longer wait for a silent holder is refused instead
};

/// A folder that one process at a time may write to, for as long as this lives: `run.lock` in it, which says who. It is
/// an OwnedFolder (base/files.h) meanwhile.
///
/// On one machine the kernel holds the lock (an open-file-description lock, also over NFS where its lock service runs)
/// and gives it back whatever becomes of the process. Where another machine's kernel cannot be asked (NFS with `nolock`
/// or `local_lock`), the modification time of run.lock counts, which the holder renews: a lock of another machine is
/// taken over once that has stood still for LockTimes::stale, and only such a lock is waited for.
class RunLock {
 public:
  /// Makes the folder. Throws DirectoryInUse; configs::SettingsError where the folder cannot be made or written to,
  /// StorageError where that is the storage's fault.
  explicit RunLock(const std::filesystem::path& folder, LockTimes times = {});
  /// Removes run.lock, where it still is this process's.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  bool try_lock();
  bool is_vacant();
  bool is_ours() const;
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
