#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/checksum.h"
#include "base/descriptor.h"
#include "base/mapped_file.h"
#include "data/graphs/group_header.h"

/// Defines the bytes of a packed collection, only for its reader and its writer.
namespace foretime::data::packed {

// Structs are written as they lie in memory; a machine of the other byte order would see a wrong endian mark.
static_assert(std::endian::native == std::endian::little, "packed collections are little-endian");

constexpr std::array<char, 8> kMagic = {'\x89', 'F', 'T', 'P', 'A', 'C', 'K', '\n'};
constexpr uint32_t kEndianMark = 0x01020304;
constexpr uint32_t kVersion = 3;
constexpr uint64_t kAlignment = 64;

struct Preamble {  // the start of the file
  std::array<char, 8> magic;
  uint32_t endian_mark;
  uint32_t version;
  uint64_t file_bytes;
  uint64_t directory_offset;
  uint64_t directory_bytes;
  uint64_t group_count;
  uint64_t directory_checksum;  // XXH64 of the directory's bytes
  uint64_t checksum;            // XXH64 of the fields before this one (own_checksum)
};
static_assert(sizeof(Preamble) == 64 && std::is_trivially_copyable_v<Preamble>);

/// Lists a group's sections in the order of the file. The two largest come first, to be written while they are read.
enum Section : size_t {
  kNodeFeatures,
  kLayoutCodes,
  kGraphPtr,
  kEdgePtr,
  kNodeTypes,
  kEdgeSource,
  kEdgeTarget,
  kLayoutNodes,
  kLayoutRowPtr,
  kLayoutRows,
  kTileRows,
  kNodeSplits,
  kCandidateIds,  // for each id its length as uint32, then its bytes
  // The following sections are read for every group before a run starts; they are adjacent.
  kRuntimes,
  kFlops,
  kConfigurations,  // configuration_hashes
  kStatistics,      // kStatisticsRows
  // The following section is optional.
  kNote,  // a text
  kSectionCount,
};

/// Counts the rows of doubles in section kStatistics: sums, sums of squares, minima and maxima of the values, then the
/// same four of their logarithms (ColumnStatistics). Columns are the node features, then the tile features.
constexpr int64_t kStatisticsRows = 8;

struct SectionRecord {
  uint64_t offset;  // relative to the start of the file, a multiple of 64; 0: the section is empty
  uint64_t bytes;
  uint64_t checksum;  // XXH64 of the section's bytes; 0: the section is empty
};

struct GroupRecord {
  uint64_t name_offset;  // relative to the start of the directory
  uint64_t name_bytes;
  uint64_t name_checksum;
  uint64_t fingerprint;
  uint32_t kind;  // data::CandidateKind
  uint32_t unit;  // data::RuntimeUnit
  GroupSizes sizes;
  std::array<SectionRecord, kSectionCount> sections;
  uint64_t collection;                // data::Collection
  std::array<uint64_t, 60> reserved;  // 0
  uint64_t checksum;                  // XXH64 of the fields before this one (own_checksum)
};
static_assert(sizeof(GroupRecord) == 1024 && std::is_trivially_copyable_v<GroupRecord>);

// The functions below are shared by the packed format's reader and writer. Other code includes data/files/packed.h.

/// Returns the XXH64 of a preamble's bytes before its last field, which stores it.
uint64_t own_checksum(const Preamble& preamble);
/// Returns the XXH64 of a record's bytes before its last field, which stores it.
uint64_t own_checksum(const GroupRecord& record);

/// Reads a file, which messages name. Throws DataError, and StorageError if the storage fails.
class File {
 public:
  explicit File(const std::filesystem::path& path);

  int descriptor() const { return descriptor_.get(); }
  const std::string& path() const { return path_; }
  /// Copies `bytes` bytes at `offset` of the file to `to`. Throws DataError, naming `field`, if the file ends before.
  void read(void* to, uint64_t bytes, uint64_t offset, const char* field) const;
  /// Throws DataError "PATH: FIELD: WHAT".
  template <class... Args>
  [[noreturn]] void fail(const std::string& field, fmt::format_string<Args...> what, Args&&... args) const {
    throw DataError("{}: {}: {}", path_, field, fmt::format(what, std::forward<Args>(args)...));
  }

 private:
  std::string path_;
  Descriptor descriptor_;
};

/// Reads a collection. All functions throw DataError for a fault, and StorageError if the storage fails.
class CollectionFile {
 public:
  /// Opens the file and checks its preamble.
  explicit CollectionFile(const std::filesystem::path& path);

  const File& file() const { return file_; }
  const Preamble& preamble() const { return preamble_; }
  /// Returns the directory's bytes after checking their checksum.
  std::vector<char> directory() const;
  /// Checks record `index`: its checksum, that name and sections are inside the file, enumerations, no negative size.
  void check(const GroupRecord& record, uint64_t index) const;
  /// Reads and checks record `index`, and puts the group's name into `name`.
  GroupRecord record(uint64_t index, std::string& name) const;

 private:
  File file_;
  Preamble preamble_{};
};

/// Maps the bytes of some sections of a group for as long as an array of them lives.
class Sections {
 public:
  /// Maps sections `first` … `last` of group `name`. `file` and `record` must outlive this object, not the arrays. A
  /// section's checksum is compared when it is read, unless `verified` says that this process has just written it.
  Sections(const File& file, const GroupRecord& record, std::string name, Section first, Section last,
           bool verified = false);

  /// Returns a section's bytes; empty if it is absent. Throws DataError, which names `field`, for a wrong checksum.
  std::span<const std::byte> bytes(Section section, const char* field) const;
  /// Returns a section of `count` × `width` values; if `count` is negative, of any number of whole values. Throws
  /// DataError, which names `field`, for a wrong size or checksum.
  template <class T>
  Array<T> array(Section section, const char* field, int64_t count, int64_t width = 1) const {
    const auto raw = checked_bytes(section, field, count, width, sizeof(T));
    return Array<T>(std::span(reinterpret_cast<const T*>(raw.data()), raw.size() / sizeof(T)), mapping_);
  }
  /// Returns a section as bytes() does, in an array that keeps the mapping.
  Array<std::byte> whole(Section section, const char* field) const { return {bytes(section, field), mapping_}; }
  std::shared_ptr<const void> keeper() const { return mapping_; }  // keeps the bytes mapped
  template <class... Args>
  [[noreturn]] void fail(const char* field, fmt::format_string<Args...> what, Args&&... args) const {
    file_.fail(name_ + ": " + field, what, std::forward<Args>(args)...);
  }

 private:
  std::span<const std::byte> checked_bytes(Section section, const char* field, int64_t count, int64_t width,
                                           uint64_t item) const;

  const File& file_;
  const GroupRecord& record_;
  std::string name_;
  bool verified_;
  std::shared_ptr<const MappedFile> mapping_;
};

/// Calls visit(section, name in messages, array of the group, count, width) for the sections of a group's graphs,
/// layout tables and tiles, in the order of the file. A negative count means that the array may have any length.
void visit_sections(auto& group, const GroupSizes& sizes, const auto& visit) {
  const bool layout = group.kind == CandidateKind::layout, tile = group.kind == CandidateKind::tile;
  const int64_t configurable = layout ? sizes.configurable : 0;
  visit(kGraphPtr, "graph_ptr", group.graphs.graph_ptr, sizes.graphs + 1, 1);
  visit(kEdgePtr, "edge_ptr", group.graphs.edge_ptr, sizes.graphs + 1, 1);
  visit(kNodeTypes, "node_types", group.graphs.node_types, sizes.nodes, 1);
  visit(kEdgeSource, "edge_source", group.graphs.edge_source, sizes.edges, 1);
  visit(kEdgeTarget, "edge_target", group.graphs.edge_target, sizes.edges, 1);
  visit(kLayoutNodes, "layout nodes", group.layout.nodes, configurable, 1);
  visit(kLayoutRowPtr, "layout row_ptr", group.layout.row_ptr, layout ? configurable + 1 : 0, 1);
  visit(kLayoutRows, "layout rows", group.layout.rows, layout ? -1 : 0, 1);
  visit(kTileRows, "tile_features", group.tile_features, tile ? sizes.candidates : 0, kTileFeatures);
  visit(kNodeSplits, "node_splits", group.node_splits, -1, 1);
}

/// Maps a group without validate_group. Throws DataError for contradicting sizes or, unless `verified`, a checksum.
Group read_group(const File& file, const GroupRecord& record, const std::string& name, bool verified = false);

/// Writes a collection to a temporary file, which `commit` renames to `file`. Removes temporary files of killed
/// processes first. All functions throw FileError, also as StorageError.
class Output {
 public:
  explicit Output(std::filesystem::path file);

  const std::filesystem::path& file() const { return file_.path(); }
  /// Returns the path of the temporary file.
  const std::filesystem::path& aside() const { return file_.aside(); }
  const std::vector<GroupRecord>& records() const { return records_; }

  /// Starts a section, which append() writes in any number of pieces; an empty section takes no space.
  void begin_section();
  void append(std::span<const std::byte> bytes);  // adds bytes to the section
  SectionRecord end_section();                    // returns the place, size and checksum of the section
  /// Writes a whole section, and returns its place, size and checksum.
  template <class T>
  SectionRecord section(std::span<const T> values) {
    begin_section();
    append(std::as_bytes(values));
    return end_section();
  }
  /// Adds the record of a group whose sections have been written, and sets the fields that concern name and checksum.
  void add_record(GroupRecord record, const std::string& name);
  /// Copies group `member` of another collection; throws DataError if the record is damaged, and checks nothing else.
  void copy_group(const CollectionFile& from, uint64_t member);

  /// Writes buffered bytes, so that the temporary file can be read up to here.
  void flush() { file_.flush(); }
  /// Writes the directory, syncs, and renames the file.
  void commit();

 private:
  void write(const void* bytes, size_t count);
  void pad();  // writes zeros up to a multiple of kAlignment
  /// Copies `bytes` bytes at `offset` of another file to the end of this one.
  void copy_bytes(const File& from, uint64_t offset, uint64_t bytes);

  AtomicFile file_;
  uint64_t position_ = 0;
  SectionRecord section_{};
  Checksum checksum_;
  std::vector<GroupRecord> records_;
  std::string names_;
};

}  // namespace foretime::data::packed
