#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

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
/// packed_file.h has the structs. The first 64 bytes and the directory tell everything but the contents, and one
/// group is opened by reading its own record, whatever the size of the collection. Beside what a group holds, a
/// collection holds what can be known of it once and for all: its summary, and a note of the writer.
namespace foretime::data {

/// Returns whether the file starts like a packed file of any version; false for files that cannot be read.
bool is_packed(const std::filesystem::path& file);

/// Reads the directory: one header for each group, in the order of the file. Throws DataError if it is damaged,
/// truncated or of another version.
std::vector<GroupHeader> packed_headers(const std::filesystem::path& file);

/// Opens group `header.member` of `header.file`. Its arrays point into the mapped file, which stays mapped as long as
/// one of them lives; the file must not be shortened in that time. Reads and checks everything except summary and
/// note. Throws DataError for a wrong checksum or value (validate_group), or if the file is not the one of the header.
Group load_packed(const GroupHeader& header);

/// Reads only the summary of a group. Throws the errors of load_packed.
GroupSummary load_packed_summary(const GroupHeader& header);

/// Returns the writer's note on a group; "" if there is none. Throws the errors of load_packed.
std::string packed_note(const GroupHeader& header);

/// Reads and checks everything, summaries against their groups. Returns the number of groups. Throws DataError at the
/// first fault.
int64_t verify_packed(const std::filesystem::path& file);

/// Writes a collection; holds no group after `add` returns. The file appears under its name, complete and synced, when
/// `finish` returns; until then the old file stays.
class PackedWriter {
 public:
  /// `note`: kept beside each group.
  explicit PackedWriter(std::filesystem::path file, std::string note = "");
  ~PackedWriter();
  PackedWriter(const PackedWriter&) = delete;
  PackedWriter& operator=(const PackedWriter&) = delete;

  /// Adds a group. `fingerprint` is that of the source file, so that a packed group is recognised as the same data; 0
  /// computes one from the contents. Throws DataError for groups that validate_group refuses, that are of another kind
  /// than the first, or whose name occurred before.
  void add(const Group& group, uint64_t fingerprint = 0);
  /// Adds a layout group whose large arrays are never in memory: `read` passes them to the sink and returns the rest.
  /// Writes the same bytes as add(). After a failure nothing more can be added.
  void add_streamed(const std::string& name, const std::function<Group(const LayoutSink& sink)>& read,
                    uint64_t fingerprint = 0);
  /// Completes the file. Throws DataError if there is no group or writing fails.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace foretime::data
