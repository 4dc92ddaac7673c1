#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"

namespace foretime::coordinator {

/// Reports a run directory or a checkpoint that cannot be used: damaged, of another model, of another configuration.
struct RunError : ErrorOf<kData> {
  using ErrorOf::ErrorOf;
};

/// Reports a file of a run or checkpoint that a newer version of the program wrote. It is intact, so it is not replaced
/// by another.
struct NewerFormat : ErrorOf<kData, RunError> {
  using ErrorOf::ErrorOf;
};

/// Throws NewerFormat or RunError unless `found`, the format number in `file`, is `known`.
void require_format(const nlohmann::json& found, int64_t known, const std::filesystem::path& file);

/// Makes a folder of these files, and of manifest.json unless that is empty, and replaces an older one of that name:
/// others see the old or the new folder, complete, also after a power loss. Throws FileError.
void write_folder(const std::filesystem::path& folder, const std::map<std::string, std::string>& contents,
                  const std::string& manifest = "");

/// Holds one complete checkpoint: its step, and the bytes of its files by name.
struct StoredCheckpoint {
  int64_t step = 0;
  std::filesystem::path folder = {};
  std::map<std::string, std::string> files = {};
};

/// Stores the checkpoints of one run: folders step-00000010/, each with its files and a manifest.json of their sizes
/// and CRC-32s. A folder is filled under another name, fsynced and renamed, so a folder with this name is complete.
/// Folders without a manifest are never read.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::filesystem::path root) : root_(std::move(root)) {}

  /// Writes a checkpoint; equal files give equal bytes on disk. Makes the store's folder, but not its parent. Throws
  /// FileError.
  void commit(int64_t step, const std::map<std::string, std::string>& contents);
  /// Returns the steps of the complete checkpoints, ascending.
  std::vector<int64_t> steps() const;
  /// Reads and checks a checkpoint. Throws RunError naming the file if a size or checksum is wrong, or the manifest is
  /// missing.
  StoredCheckpoint read(int64_t step) const;
  /// Reads a checkpoint or, if it is damaged or removed meanwhile, the newest intact older one, or else the oldest
  /// intact newer one. `warn` is called with the error of each one that is skipped. If none is intact, it throws
  /// StorageError if the storage failed, else the first error. Throws UnreachableError and NewerFormat at once, since
  /// such a checkpoint may be intact.
  using Warn = std::function<void(const std::string&)>;
  StoredCheckpoint read_intact(int64_t step, const Warn& warn) const;
  /// Renames the checkpoints after `step` to damaged-…, so that they do not count any more.
  void set_aside_after(int64_t step);
  /// Records the best checkpoint, for prune() and best_step().
  void mark_best(int64_t step, const std::string& metric, double value);
  /// Returns the step of the best checkpoint; nullopt if none was recorded, or it does not exist. Throws RunError if
  /// best.json is damaged.
  std::optional<int64_t> best_step() const;
  /// Returns the recorded best step even if its checkpoint does not exist; nullopt if none was recorded. Throws
  /// RunError if best.json is damaged.
  std::optional<int64_t> noted_best() const;
  /// Removes the record of mark_best().
  void unmark_best();
  /// Removes all but the newest `last` checkpoints and the best one, and renamed damaged ones up to the newest step.
  void prune(int64_t last, bool keep_best);
  /// Removes all files of this class. Other files in the folder stay.
  void clear();
  /// Returns the folder of the checkpoint after `step` steps.
  std::filesystem::path folder(int64_t step) const;

 private:
  /// Removes unfinished files of checkpoints and best.json that interrupted processes left.
  void remove_partial_files();

  std::filesystem::path root_;
};

/// Returns the folder of a run's checkpoints for `path`, which is that folder or the run directory; nullopt if `path`
/// is a single checkpoint or something else.
std::optional<std::filesystem::path> folder_of_checkpoints(const std::filesystem::path& path);
/// Reads a checkpoint from a step folder, a run directory or its checkpoints folder (the best checkpoint there, else
/// the newest). Throws RunError.
StoredCheckpoint read_checkpoint(const std::filesystem::path& path);
/// Reads the checkpoint of read_checkpoint() or, if it is damaged, an intact one of the same folder
/// (CheckpointStore::read_intact).
StoredCheckpoint read_intact_checkpoint(const std::filesystem::path& path, const CheckpointStore::Warn& warn);

}  // namespace foretime::coordinator
