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
constexpr uint32_t kVersion = 1;
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

enum Section : size_t {
  kGraphPtr,
  kEdgePtr,
  kNodeFeatures,
  kNodeTypes,
  kEdgeSource,
  kEdgeTarget,
  kLayoutNodes,
  kLayoutRowPtr,
  kLayoutRows,
  kLayoutCodes,
  kTileRows,
  kRuntimes,
  kFlops,
  kNodeSplits,
  kCandidateIds,  // for each id its length as uint32, then its bytes
  kSectionCount,
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
  std::array<uint64_t, 6> reserved;  // 0
  uint64_t checksum;                 // of the bytes before it
};
static_assert(sizeof(GroupRecord) == 512 && std::is_trivially_copyable_v<GroupRecord>);

}  // namespace foretime::data::packed
