#pragma once

#include <filesystem>
#include <string>

/// Temporary files that hold an unfinished write of PATH. A killed process leaves them, and they may be large.
///
/// The files of one write are PATH.WRITE.foretime-tmp or PATH.WRITE.NAME.foretime-tmp, where WRITE is a number, or two
/// with a hyphen between them: AtomicFile uses PATH.PID-NUMBER.foretime-tmp. Each process that takes part locks one of
/// them (base/file_lock.h), which it makes before its others and removes after them.
///
/// A write has died when no process holds a lock of its files. Process ids do not decide, since other machines and
/// containers have equal ones. If other machines may see the folder, whose kernels may not share locks, none of the
/// files must also have changed for a day, by the clock of the storage.
namespace foretime {

/// Returns whether `file` has the name of a temporary file for an entry `name` of the same folder: NAME.foretime-tmp,
/// NAME.old-PID.foretime-tmp (being removed), or a file of a write as above.
bool is_partial_file_of(const std::filesystem::path& file, const std::string& name);

/// Locks the temporary file `name` that this process has just made and opened as `file`. Returns false if another
/// process examines the file right now or has removed it as dead; the caller then makes another one. Returns true,
/// without a lock, if the file system has no locks.
bool lock_partial_file(int file, const std::filesystem::path& name);

/// Removes the temporary files of dead writes of `path`. `own` is the descriptor of the file that this process has just
/// made for its own write, which gives the time and the file system; does nothing if `own` is negative. Files that
/// cannot be examined or removed stay, without an error.
void remove_dead_partial_files(const std::filesystem::path& path, int own);

}  // namespace foretime
