#pragma once

namespace foretime {

enum class LockState {
  taken,    // this call has taken the lock
  held,     // the lock is taken by another process, or through another descriptor
  unknown,  // the lock could not be tried: the file system has no locks, does not answer, or forbids them
};

/// Tries to take the lock of a file, without waiting. `file` is a descriptor that is open for writing. The kernel
/// releases the lock when that descriptor is closed or the process ends. errno is the reason of LockState::unknown.
LockState try_to_lock(int file);

/// Returns whether other machines may see the file system of the open descriptor `file`; true if it cannot be examined.
/// Other machines respect locks only if the file system has a lock service (NFS without `nolock`, Lustre with `flock`).
bool is_shared(int file);

}  // namespace foretime
