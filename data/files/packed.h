#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
/// collection holds what can be known of it once and for all: its summary, and plans that a caller stores.
namespace foretime::data {

/// Whether the file starts as packed files do (of any version). False for files that cannot be read.
bool is_packed(const std::filesystem::path& file);

/// The directory: one header a group, in the order of the file. Throws DataError if it is damaged, cut off or of
/// another version.
std::vector<GroupHeader> packed_headers(const std::filesystem::path& file);

/// Opens group `header.member` of `header.file`. Its arrays borrow from the mapped file, which stays mapped as long as
/// one of them lives; a file must not be shortened in that time. Everything but summary and plans is read and checked
/// here, at the group's first use. Throws DataError where a checksum or any value is wrong (validate_group), or where
/// the file is not the one that the header came from.
Group load_packed(const GroupHeader& header);

/// The summary alone: the rest of the group is neither read nor checked. Throws DataError as load_packed.
GroupSummary load_packed_summary(const GroupHeader& header);

/// The plan that was stored under `key`, borrowed from the mapped file; empty where there is none. Its contents are the
/// caller's: checked against a checksum, and not understood here. Throws DataError as load_packed.
std::optional<Array<std::byte>> load_packed_plan(const GroupHeader& header, uint64_t key);

/// Reads and checks everything, summaries against their groups; returns the number of groups. Throws DataError at the
/// first thing that is wrong.
int64_t verify_packed(const std::filesystem::path& file);

/// Plans to keep beside a group, by a key of the caller's, such as a hash of what they are for.
using PackedPlans = std::map<uint64_t, std::vector<std::byte>>;
/// Called with each group after it was written; the arrays borrow from the unfinished file. Must be safe to call from
/// several threads where groups are packed by several.
using PlanMaker = std::function<PackedPlans(const Group& group)>;

/// Writes a collection, holding no group longer than `add` runs. The file appears under its name, complete and on the
/// disk, when `finish` returns; before, and if it never does, what was there stays.
class PackedWriter {
 public:
  explicit PackedWriter(std::filesystem::path file, PlanMaker plans = {});
  ~PackedWriter();
  PackedWriter(const PackedWriter&) = delete;
  PackedWriter& operator=(const PackedWriter&) = delete;

  /// `fingerprint`: that of the source file, so that a packed group is known as the same data; 0 takes one of the
  /// contents. Throws DataError for groups that validate_group refuses, of another kind than the first, or named as an
  /// earlier one.
  void add(const Group& group, uint64_t fingerprint = 0);
  /// Adds a layout group whose large arrays are never in memory: `read` gives them to the sink and returns the rest.
  /// The file has the bytes that add() would have given it. After a failure nothing more can be added.
  void add_streamed(const std::string& name, const std::function<Group(const LayoutSink& sink)>& read,
                    uint64_t fingerprint = 0);
  /// Throws DataError if there is no group, or if writing fails.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace foretime::data
