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

/// A run directory or a checkpoint that cannot be used: damaged, of another model, of another configuration.
struct RunError : ErrorOf<kData> {
  using ErrorOf::ErrorOf;
};

/// A file of a run or checkpoint that a newer version of the program wrote. It is whole, so no other one replaces it.
struct NewerFormat : ErrorOf<kData, RunError> {
  using ErrorOf::ErrorOf;
};

/// Throws NewerFormat or RunError unless `found`, the number of the format that `file` states, is `known`.
void require_format(const nlohmann::json& found, int64_t known, const std::filesystem::path& file);

/// Makes a folder of these files and manifest.json, unless that is empty, in the place of an older one of that name:
/// others see the old one or the new one, whole, also after a loss of power. Throws FileError.
void write_folder(const std::filesystem::path& folder, const std::map<std::string, std::string>& contents,
                  const std::string& manifest = "");

/// One complete checkpoint: its step, and the bytes of its files by name.
struct StoredCheckpoint {
  int64_t step = 0;
  std::filesystem::path folder = {};
  std::map<std::string, std::string> files = {};
};

/// The checkpoints of one run: folders step-00000010/, each with its files and a manifest.json of their sizes and
/// CRC-32s. A folder is filled under another name, fsynced and renamed, so a folder of that name is complete; what has
/// no manifest is never read.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::filesystem::path root) : root_(std::move(root)) {}

  /// Writes a checkpoint; equal files give equal bytes on disk. Makes the store's folder, and none above it. Throws
  /// FileError.
  void commit(int64_t step, const std::map<std::string, std::string>& contents);
  /// Steps of the complete checkpoints, ascending.
  std::vector<int64_t> steps() const;
  /// Reads and checks one. Throws RunError naming the file where a size or checksum is wrong, or the manifest is
  /// missing.
  StoredCheckpoint read(int64_t step) const;
  /// Reads that checkpoint or, where it is damaged or goes while it is read, the newest intact older one, or else the
  /// oldest intact newer one. `warn` is told what is wrong with each that is passed over. Throws where none is intact:
  /// StorageError where the storage failed, else what is wrong with the first. Throws UnreachableError and NewerFormat
  /// at once: what cannot be reached, or is of a newer version, may be intact.
  using Warn = std::function<void(const std::string&)>;
  StoredCheckpoint read_intact(int64_t step, const Warn& warn) const;
  /// Renames the checkpoints after `step` to damaged-…, so that they are none and do not count among the newest.
  void set_aside_after(int64_t step);
  /// Notes the best checkpoint, for keep() and for `best_step`.
  void mark_best(int64_t step, const std::string& metric, double value);
  /// Empty where none was noted, or its checkpoint is not there. Throws RunError where best.json is damaged.
  std::optional<int64_t> best_step() const;
  /// The best as it was noted, whether its checkpoint is there or not. Empty where none was. Throws RunError where
  /// best.json is damaged.
  std::optional<int64_t> noted_best() const;
  /// Forgets what mark_best() noted.
  void unmark_best();
  /// Removes all but the newest `last` checkpoints and the best one, and what was set aside of steps up to the newest.
  void prune(int64_t last, bool keep_best);
  /// Removes all that this class writes. Whatever else is in the folder stays.
  void clear();
  std::filesystem::path folder(int64_t step) const;

 private:
  /// Removes what interrupted processes left of checkpoints and of best.json.
  void remove_halves();

  std::filesystem::path root_;
};

/// The folder of a run's checkpoints that `path` names: that folder, or the run directory. Empty where `path` is one
/// checkpoint, or nothing of the kind.
std::optional<std::filesystem::path> folder_of_checkpoints(const std::filesystem::path& path);
/// Reads a checkpoint folder wherever it lies: a step folder, a run directory or its checkpoints folder (the best
/// checkpoint there, else the newest). Throws RunError.
StoredCheckpoint read_checkpoint(const std::filesystem::path& path);
/// Reads what read_checkpoint() would or, where that is damaged, an intact one of the same folder
/// (CheckpointStore::read_intact).
StoredCheckpoint read_intact_checkpoint(const std::filesystem::path& path, const CheckpointStore::Warn& warn);

}  // namespace foretime::coordinator
