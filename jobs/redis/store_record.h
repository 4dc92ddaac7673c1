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

/// One file of the append-only file: how long it was, and the checksum of what was read of it.
struct RecordedFile {
  std::array<char, 96> name{};  // file name in appendonlydir, ending with a zero byte
  int64_t sequence = 0;         // bases and increments are counted separately
  char type = 'i';              // b: base, i: increment
  int64_t bytes = 0;
  int64_t summed_bytes = 0;  // bytes that `checksum` covers, at most `bytes`
  Checksum checksum = Checksum();
};

/// Records the files and lengths of an embedded Redis' append-only file at one moment. The guardian writes it to the
/// file `written` (below), by which the next start notices that something is missing. Its functions are
/// async-signal-safe.
///
/// The record never says more than what survives a loss of power. Redis syncs its data before it answers, so a size
/// that did not change while Redis answered a PING is on disk, and it is the end of a transition, which Redis does not
/// cut off when it loads the file.
class StoreRecord {
 public:
  static constexpr int64_t kMostFiles = 32;

  /// Reads from Redis' manifest which files there are, and from the file system how long they are. Keeps the checksums
  /// of files that it knew. False: they cannot be read now; then the record is unchanged.
  bool measure(int folder);
  /// Returns whether the files are as `measure` found them.
  bool is_current(int folder) const;
  /// Returns whether the files can be those of this record, or what a server added to them: nothing was replaced or
  /// cut.
  bool may_be_loaded(int folder) const;
  /// Reads what was added since the last time, syncs the names of the files, and replaces `written`. Does nothing where
  /// `written` holds the same already. False: it could not be written.
  bool save(int folder);

  /// Returns the inode of the manifest that named the files, which each change of it replaces; 0: not known.
  ino_t manifest() const { return manifest_; }
  void set_manifest(ino_t inode) { manifest_ = inode; }

 private:
  friend StoreRecord checked_record(const EmbeddedFolder&, const std::optional<AppendOnlyManifest>&,
                                    std::vector<std::string>&);
  std::span<const RecordedFile> files() const { return std::span(files_).first(file_count_); }

  std::array<RecordedFile, kMostFiles> files_{};
  int64_t file_count_ = 0;
  ino_t manifest_ = 0;
  uint64_t saved_ = 0;  // checksum of the text in `written`; 0: not known
};

/// Returns the inode of Redis' manifest, which each change of it replaces; 0: there is none. Async-signal-safe.
ino_t manifest_inode(int folder);

/// Compares the append-only file, which has this manifest, if any, with `written`: no file that it names may be shorter
/// or have another content up to the length that it names, but files that a rewrite has replaced may be gone. Adds to
/// `missing` what is not so, in words. Returns the record for the guardian of the next server, whose manifest is not
/// set. Throws as EmbeddedFolder does.
StoreRecord checked_record(const EmbeddedFolder& folder, const std::optional<AppendOnlyManifest>& manifest,
                           std::vector<std::string>& missing);

/// Names the file in the folder of an embedded Redis. It has a first line `foretime-store 1`, then for each file
/// `TYPE SEQUENCE NAME BYTES CHECKSUM`; the checksum is XXH64 in hexadecimal digits.
inline constexpr char kStoreRecordFile[] = "written";

}  // namespace foretime::jobs
