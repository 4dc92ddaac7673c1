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

/// Bytes of a packed collection, for its reader and its writer only.
namespace foretime::data::packed {

// Structs are written as they lie in memory; a machine of the other byte order would see a wrong endian mark.
static_assert(std::endian::native == std::endian::little, "packed collections are little-endian");

constexpr std::array<char, 8> kMagic = {'\x89', 'F', 'T', 'P', 'A', 'C', 'K', '\n'};
constexpr uint32_t kEndianMark = 0x01020304;
constexpr uint32_t kVersion = 3;
constexpr uint64_t kAlignment = 64;

struct Preamble {
  std::array<char, 8> magic;
  uint32_t endian_mark;
  uint32_t version;
  uint64_t file_bytes;
  uint64_t directory_offset;
  uint64_t directory_bytes;
  uint64_t group_count;
  uint64_t directory_checksum;
  uint64_t checksum;  // of the bytes before it
};
static_assert(sizeof(Preamble) == 64 && std::is_trivially_copyable_v<Preamble>);

/// In the order in which a group's sections stand in the file. The two that may be too large for memory come first, so
/// that they can be written while they are read.
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
  // What a run reads of every group before it starts; they lie together.
  kRuntimes,
  kFlops,
  kConfigurations,  // configuration_hashes
  kStatistics,      // see kStatisticsRows
  // Optional.
  kPlans,  // PlanTable, PlanRecords, then the plans, each at a multiple of 64 bytes from the section's start
  kSectionCount,
};

/// kStatistics holds one row of doubles for each of: sums, squares, minima, maxima of the values; the same of their
/// logarithms. Columns are the node features, then the tile features; ColumnStatistics says what they are.
constexpr int64_t kStatisticsRows = 8;

struct PlanTable {
  uint64_t count;
  uint64_t reserved;  // 0
};
struct PlanRecord {
  uint64_t key;     // ascending
  uint64_t offset;  // from the start of the section
  uint64_t bytes;
};

struct SectionRecord {
  uint64_t offset;  // from the start of the file, a multiple of 64; 0 where the section is empty
  uint64_t bytes;
  uint64_t checksum;
};

struct GroupRecord {
  uint64_t name_offset;  // from the start of the directory
  uint64_t name_bytes;
  uint64_t name_checksum;
  uint64_t fingerprint;
  uint32_t kind;
  uint32_t unit;
  GroupSizes sizes;
  std::array<SectionRecord, kSectionCount> sections;
  uint64_t collection;                // data::Collection
  std::array<uint64_t, 60> reserved;  // 0
  uint64_t checksum;                  // of the bytes before it
};
static_assert(sizeof(GroupRecord) == 1024 && std::is_trivially_copyable_v<GroupRecord>);

// What the packed format's readers and its writer share. Others include data/packed.h.

/// Of all bytes before a record's last field, its checksum.
uint64_t own_checksum(const Preamble& preamble);
uint64_t own_checksum(const GroupRecord& record);

/// An open file, by its name in messages.
class File {
 public:
  /// Opens to read. Throws DataError.
  explicit File(const std::filesystem::path& path);

  int descriptor() const { return descriptor_.get(); }
  const std::string& path() const { return path_; }
  /// Reads exactly so many bytes. Throws DataError.
  void read(void* to, uint64_t bytes, uint64_t offset, const char* field) const;
  template <class... Args>
  [[noreturn]] void fail(const std::string& field, fmt::format_string<Args...> what, Args&&... args) const {
    throw DataError("{}: {}: {}", path_, field, fmt::format(what, std::forward<Args>(args)...));
  }

 private:
  std::string path_;
  Descriptor descriptor_;
};

/// A collection whose preamble has been checked. All throw DataError.
class CollectionFile {
 public:
  explicit CollectionFile(const std::filesystem::path& path);

  const File& file() const { return file_; }
  const Preamble& preamble() const { return preamble_; }
  /// The directory's bytes, checked as a whole.
  std::vector<char> directory() const;
  /// Checks a record for itself: its checksum, that its sections lie inside the file, that no size is negative.
  void check(const GroupRecord& record, uint64_t index) const;
  /// Reads and checks one record, and its name.
  GroupRecord record(uint64_t index, std::string& name) const;

 private:
  File file_;
  Preamble preamble_{};
};

/// The bytes of some sections of a group, mapped for as long as an array of them lives.
class Sections {
 public:
  /// Maps the range that sections `first` … `last` span. `file` must outlive this object, not the arrays. Without
  /// `verified` checksums are compared when a section is asked for; with it, the caller has just written them.
  Sections(const File& file, const GroupRecord& record, std::string name, Section first, Section last,
           bool verified = false);

  /// Throws DataError where the checksum is wrong.
  std::span<const std::byte> bytes(Section section, const char* field) const;
  /// `count` × `width` values, or as many as there are where `count` < 0. Throws DataError where the size or the
  /// checksum is wrong.
  template <class T>
  Array<T> array(Section section, const char* field, int64_t count, int64_t width = 1) const {
    const auto raw = checked_bytes(section, field, count, width, sizeof(T));
    return Array<T>(std::span(reinterpret_cast<const T*>(raw.data()), raw.size() / sizeof(T)), mapping_);
  }
  Array<std::byte> whole(Section section, const char* field) const { return {bytes(section, field), mapping_}; }
  std::shared_ptr<const void> keeper() const { return mapping_; }
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

/// Calls visit(section, name in messages, array of the group, count, width) for the sections that a group's graphs,
/// layout tables and tiles are, in the order of the file. A count below 0: as many as there are.
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

/// The group that a record describes, not validated. Throws DataError where sizes do not fit together or checksums are
/// wrong.
Group read_group(const File& file, const GroupRecord& record, const std::string& name, bool verified = false);

/// A collection being written: bytes go to a file beside `file`, which takes its name in `commit`. What killed
/// processes left there goes first. All throw FileError.
class Output {
 public:
  explicit Output(std::filesystem::path file);

  const std::filesystem::path& file() const { return file_.path(); }
  /// Where the bytes are before `commit`.
  const std::filesystem::path& aside() const { return file_.aside(); }
  const std::vector<GroupRecord>& records() const { return records_; }

  /// A section is written in any number of pieces; one without bytes leaves no trace.
  void begin_section();
  void append(std::span<const std::byte> bytes);
  SectionRecord end_section();
  template <class T>
  SectionRecord section(std::span<const T> values) {
    begin_section();
    append(std::as_bytes(values));
    return end_section();
  }
  /// Ends a group whose sections have been written.
  void add_record(GroupRecord record, const std::string& name);
  /// Copies group `member` of another collection, sections and record, without looking at its contents.
  void copy_group(const CollectionFile& from, uint64_t member);

  /// After it, others that open `aside` read what has been written so far.
  void flush() { file_.flush(); }
  /// Writes the directory, syncs, and renames into place.
  void commit();

 private:
  void write(const void* bytes, size_t count);
  void pad();
  void copy_bytes(const File& from, uint64_t offset, uint64_t bytes);

  AtomicFile file_;
  uint64_t position_ = 0;
  SectionRecord section_{};
  Checksum checksum_;
  std::vector<GroupRecord> records_;
  std::string names_;
};

}  // namespace foretime::data::packed
