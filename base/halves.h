#pragma once

#include <filesystem>

/// What processes write beside PATH until it is whole. A process that is killed leaves it there, and it may be large.
///
/// The files of one writing are PATH.WRITING.foretime-tmp or PATH.WRITING.NAME.foretime-tmp, where WRITING is a number,
/// or two with a hyphen between them: PATH.PID-NUMBER.foretime-tmp is the half of an AtomicFile. Each process that
/// takes part holds the lock of one of them (base/file_lock.h), which it makes before its others and removes after
/// them.
///
/// A writing has died when nobody holds a lock of its files. Process ids do not decide: other machines and containers
/// have the same ones. Where other machines may see the folder, their kernels may not know of each other's locks; there
/// nothing of the writing must have changed for a day as well, by the clock of the storage.
namespace foretime {

/// Whether `file` has the name of something that is being written next to a file or folder of that name, or is being
/// removed: NAME.foretime-tmp, NAME.old-PID.foretime-tmp, or a file of a writing as above.
bool is_half_of(const std::filesystem::path& file, const std::string& name);

/// Locks a half that this process has just made. False: somebody took it for one that was left, and has removed it.
bool lock_half(int half, const std::filesystem::path& name);

/// Removes the files of writings of `path` that have died. `own` is the file that this process has just made for its
/// own writing: it tells the time and the file system. What cannot be looked at or removed stays, without an error.
void remove_dead_halves(const std::filesystem::path& path, int own);

}  // namespace foretime
