#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/checksum.h"
#include "jobs/redis/append_only.h"

namespace foretime::jobs {

class EmbeddedFolder;

/// One file of the append-only file: its length, and a checksum of its first bytes.
struct RecordedFile {
  std::array<char, 96> name{};  // file name in appendonlydir, ending with a zero byte
  int64_t sequence = 0;         // number of the file; bases and increments are counted separately
  char type = 'i';              // b: base, i: increment
  int64_t bytes = 0;            // length of the file
  int64_t summed_bytes = 0;     // length of the beginning that `checksum` covers, at most `bytes`
  Checksum checksum = Checksum();
};

/// Records the files and lengths of an embedded Redis' append-only file at one moment. The guardian writes it to the
/// file `written`, by which the next start notices missing data. All functions are async-signal-safe.
///
/// The record never claims more than a loss of power leaves. Redis syncs its data before it answers, so a size that did
/// not change while Redis answered a PING is on disk.
class StoreRecord {
 public:
  static constexpr int64_t kMostFiles = 32;

  /// Replaces the record by the files that Redis' manifest in `folder` (a descriptor) names and their present lengths.
  /// Keeps the checksums of files that it has already. Returns false and changes nothing if the manifest cannot be
  /// read, changes meanwhile or names more than kMostFiles, or if a file is missing or shorter than its summed_bytes.
  bool measure(int folder);
  /// Returns whether the manifest and the lengths of the files are still those of this record.
  bool is_current(int folder) const;
  /// Returns whether the manifest is still that of this record and no file is shorter. True if manifest() is 0.
  bool may_be_loaded(int folder) const;
  /// Completes the checksums, syncs the names of the files, and replaces the file `written`, unless it has the same
  /// text already. Returns false if a file cannot be read or `written` cannot be written.
  bool save(int folder);

  /// Returns the inode of the manifest that named the files, which changes with the manifest; 0: not known.
  ino_t manifest() const { return manifest_; }
  void set_manifest(ino_t inode) { manifest_ = inode; }

 private:
  friend StoreRecord checked_record(const EmbeddedFolder&, const std::optional<AppendOnlyManifest>&,
                                    std::vector<std::string>&);
  std::span<const RecordedFile> files() const { return std::span(files_).first(file_count_); }

  std::array<RecordedFile, kMostFiles> files_{};
  int64_t file_count_ = 0;
  ino_t manifest_ = 0;
  uint64_t saved_ = 0;  // checksum of the text in the file `written`; 0: not known
};

/// Returns the inode of Redis' manifest in `folder`; 0 if there is none. Async-signal-safe.
ino_t manifest_inode(int folder);

/// Compares the files of an append-only file with the file `written`: each file that `written` names must be in
/// `manifest`, be at least as long, and have the recorded checksum up to the recorded length. Files that a rewrite has
/// replaced may be missing. Adds a text for each difference to `missing`. Returns the record of the intact files for
/// the guardian of the next server, without manifest(); an empty one if `written` does not exist or is damaged, or
/// `manifest` is empty. Throws RedisUnavailable or RedisStorageError if a file cannot be read.
StoreRecord checked_record(const EmbeddedFolder& folder, const std::optional<AppendOnlyManifest>& manifest,
                           std::vector<std::string>& missing);

/// The name of the record's file in the folder of an embedded Redis. Its first line is `foretime-store 1`; a line `TYPE
/// SEQUENCE NAME BYTES CHECKSUM` for each file follows, with an XXH64 in hexadecimal digits.
inline constexpr char kStoreRecordFile[] = "written";

}  // namespace foretime::jobs
