#pragma once

namespace foretime {

enum class LockState {
  taken,    // this call has taken the lock
  held,     // another process has the lock
  unknown,  // the file system has no locks, or does not answer
};

/// Tries to take the lock of a file that is open for writing, without waiting: an open-file-description lock, which the
/// kernel releases when the file is closed or the process ends. errno is the reason of LockState::unknown.
LockState try_to_lock(int file);

/// Returns whether other machines may see the file system of an open file. Their kernels know its locks only if it has
/// a lock service (NFS without `nolock`, Lustre with `flock`).
bool is_shared(int file);

}  // namespace foretime
