#pragma once

namespace foretime {

enum class LockState {
  taken,    // by this call
  held,     // by another process
  unknown,  // this file system has no locks, or does not answer
};

/// Takes the lock of a file that is open for writing, without waiting: an open-file-description lock, which the kernel
/// gives back when the file is closed, whatever becomes of the process.
LockState try_to_lock(int file);

/// Whether other machines may see the file system that an open file lies on. Their kernels know of its locks only where
/// it has a lock service (NFS without `nolock`, Lustre with `flock`).
bool is_shared(int file);

}  // namespace foretime
