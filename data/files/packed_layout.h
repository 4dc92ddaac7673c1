#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

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
/// logarithms. Columns are the node features, then the tile features; column_statistics.h says what they are.
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
  int64_t candidates;
  int64_t graphs, nodes, edges, configurable;
  int64_t feature_count;
  int64_t node_type_count;
  std::array<SectionRecord, kSectionCount> sections;
  uint64_t collection;                // data::Collection
  std::array<uint64_t, 60> reserved;  // 0
  uint64_t checksum;                  // of the bytes before it
};
static_assert(sizeof(GroupRecord) == 1024 && std::is_trivially_copyable_v<GroupRecord>);

}  // namespace foretime::data::packed
