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

/// Returns if `found`, the format number in `file`, is `known`. Throws NewerFormat for a larger number, else RunError.
void require_format(const nlohmann::json& found, int64_t known, const std::filesystem::path& file);

/// Writes the files `contents` (key: name), and manifest.json with the text `manifest` unless it is "", as the folder
/// `folder`, which replaces an older one at once, also after a power loss. Makes parent folders. Throws FileError.
void write_folder(const std::filesystem::path& folder, const std::map<std::string, std::string>& contents,
                  const std::string& manifest = "");

/// Holds one complete checkpoint: its step, and the bytes of its files by name.
struct StoredCheckpoint {
  int64_t step = 0;
  std::filesystem::path folder = {};              // folder that it was read from
  std::map<std::string, std::string> files = {};  // key: file name; value: content
};

/// Stores the checkpoints of one run in the folder `root`: folders such as step-00000010/, each with the checkpoint's
/// files and a manifest.json of the files' sizes and CRC-32s. Each folder is written under another name, fsynced and
/// renamed, so a folder with such a name is complete. Folders without a manifest are never read.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::filesystem::path root) : root_(std::move(root)) {}

  /// Writes the checkpoint of `step` with the files `contents` (key: file name), and replaces an older one of that
  /// step. Makes the store's folder, but not the parent folder. Throws FileError.
  void commit(int64_t step, const std::map<std::string, std::string>& contents);
  /// Returns the steps of the complete checkpoints, ascending.
  std::vector<int64_t> steps() const;
  /// Reads and checks the checkpoint of `step`. Throws RunError naming the file if a size, checksum or step is wrong,
  /// or a file or the manifest is missing or damaged; NewerFormat; FileError if a file cannot be read.
  StoredCheckpoint read(int64_t step) const;
  /// Reads the checkpoint of `step`. If it is damaged or missing, reads the newest intact older one, else the oldest
  /// intact newer one, and calls `warn` with the error of each checkpoint that it skips. If none is intact, throws
  /// StorageError if the storage failed, else the first error. Throws UnreachableError and NewerFormat at once.
  using Warn = std::function<void(const std::string&)>;
  StoredCheckpoint read_intact(int64_t step, const Warn& warn) const;
  /// Renames each checkpoint of a later step than `step` from step-N to damaged-step-N, so that steps() omits it.
  void set_aside_after(int64_t step);
  /// Records in best.json that the checkpoint of `step` is the best, with `value` of `metric`.
  void mark_best(int64_t step, const std::string& metric, double value);
  /// Returns the step that mark_best() recorded; nullopt if none was recorded or its checkpoint does not exist. Throws
  /// RunError if best.json is damaged.
  std::optional<int64_t> best_step() const;
  /// Returns the step that mark_best() recorded, even if its checkpoint does not exist; nullopt if none was recorded,
  /// or step 0 without a checkpoint. Throws RunError if best.json is damaged.
  std::optional<int64_t> noted_best() const;
  /// Removes best.json, the record of mark_best(), if it exists.
  void unmark_best();
  /// Removes all checkpoints but the newest `last` and, if `keep_best` is set, best_step(). Also removes folders
  /// damaged-… of steps up to that of the newest checkpoint. Throws RunError if `keep_best` and best.json is damaged.
  void prune(int64_t last, bool keep_best);
  /// Removes all checkpoints, folders damaged-… and best.json. Other files in the folder stay.
  void clear();
  /// Returns the path of the checkpoint of `step`, whether or not it exists.
  std::filesystem::path folder(int64_t step) const;

 private:
  /// Removes unfinished files of checkpoints and best.json that interrupted processes left.
  void remove_partial_files();

  std::filesystem::path root_;
};

/// Returns the folder of a run's checkpoints: path/checkpoints if that folder exists, else `path`. Returns nullopt if
/// `path` is not a folder, has a manifest, or has the name of a single checkpoint (step-N).
std::optional<std::filesystem::path> folder_of_checkpoints(const std::filesystem::path& path);
/// Reads the single checkpoint `path` or, of a run directory or its folder of checkpoints, best_step(), else the
/// newest. Throws RunError if there is no complete checkpoint, else as CheckpointStore::read does.
StoredCheckpoint read_checkpoint(const std::filesystem::path& path);
/// Reads the checkpoint of read_checkpoint() or, if it is damaged or missing, another one of the same run, as
/// CheckpointStore::read_intact does. Throws RunError if there is no complete checkpoint or best.json is damaged.
StoredCheckpoint read_intact_checkpoint(const std::filesystem::path& path, const CheckpointStore::Warn& warn);

}  // namespace foretime::coordinator
