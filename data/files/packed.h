#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/no_copy.h"
#include "data/graphs/group.h"
#include "data/graphs/group_header.h"
#include "data/graphs/layout_coder.h"

/// The packed format (.foretime): one collection of groups in a file that is mapped into memory, not parsed.
/// Little-endian:
///
///   64 bytes     magic, endian mark, version, directory's place and checksum, file size, own checksum
///   sections     arrays of one group after the other, each starting at a multiple of 64 bytes
///   directory    one 1024-byte record a group (sizes, fingerprint, each section's offset, bytes and XXH64), then the
///                names
///
/// packed_file.h has the structs. A group is opened by reading only its own record of the directory, whatever the size
/// of the collection. In addition to the group, a collection holds its summary, and a note of the writer. All functions
/// that read throw StorageError if the storage fails.
namespace foretime::data {

/// Returns whether a readable file starts with the magic of packed files, of any version.
bool is_packed(const std::filesystem::path& file);

/// Reads the directory: one header for each group, in the order of the file. Throws DataError if the file is missing,
/// no packed file, truncated or of another version, or if the directory is damaged.
std::vector<GroupHeader> packed_headers(const std::filesystem::path& file);

/// Opens group `header.member` of `header.file`. Its arrays point into the mapped file, which stays mapped as long as
/// one of them lives; the file must not be shortened in that time. Checks everything except summary and note. Throws
/// DataError for a wrong checksum or value (validate_group), or if name or fingerprint differ from the header's.
Group load_packed(const GroupHeader& header);

/// Reads the summary of a group, without the group. Checks run times and checksums, but not that the summary belongs to
/// the group (verify_packed). Throws DataError for the reasons of load_packed.
GroupSummary load_packed_summary(const GroupHeader& header);

/// Returns the writer's note on a group; "" if there is none. Throws the errors of load_packed, but reads no group.
std::string packed_note(const GroupHeader& header);

/// Checks all groups and notes, and each summary against its group. Returns the number of groups. Throws DataError.
int64_t verify_packed(const std::filesystem::path& file);

/// Writes a collection; keeps no group in memory. The file appears under its name, complete and synced, when `finish`
/// returns; until then an older file stays. All functions throw FileError, also as StorageError, if writing fails.
class PackedWriter : NoCopy {
 public:
  /// `note` is stored with each group (packed_note).
  explicit PackedWriter(std::filesystem::path file, std::string note = "");
  ~PackedWriter();

  /// Adds a group. `fingerprint` is that of the source file, so that a packed group is recognised as the same data; 0
  /// computes one from the contents. Throws DataError for a group that validate_group refuses, that is of another kind
  /// than the first one, or whose name occurred before; other groups can then still be added.
  void add(const Group& group, uint64_t fingerprint = 0);
  /// Adds the layout group `name`, whose large arrays are never whole in memory: `read` passes them to the sink and
  /// returns the rest of the group. Writes the same bytes and throws the same errors as add(). If `read` fails or its
  /// group is refused, further calls of add, add_streamed and finish throw DataError.
  void add_streamed(const std::string& name, const std::function<Group(const LayoutSink& sink)>& read,
                    uint64_t fingerprint = 0);
  /// Completes the file. Throws DataError if there is no group.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace foretime::data
