#include "data/files/packed_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/error.h"

namespace foretime::data::packed {
namespace {

template <class Record>
uint64_t checksum_before_last_field(const Record& record) {
  return checksum(std::as_bytes(std::span(&record, 1)).first(offsetof(Record, checksum)));
}

std::vector<std::string> split_ids(const Sections& sections) {
  std::vector<std::string> ids;
  auto rest = sections.bytes(kCandidateIds, "candidate_ids");
  while (!rest.empty()) {
    uint32_t length = 0;
    if (rest.size() >= sizeof length) std::memcpy(&length, rest.data(), sizeof length);
    if (rest.size() < sizeof length || rest.size() - sizeof length < length) {
      sections.fail("candidate_ids", fmt::format("cut off after {} names", ids.size()));
    }
    ids.emplace_back(reinterpret_cast<const char*>(rest.data()) + sizeof length, length);
    rest = rest.subspan(sizeof length + length);
  }
  return ids;
}

}  // namespace

uint64_t own_checksum(const Preamble& preamble) { return checksum_before_last_field(preamble); }
uint64_t own_checksum(const GroupRecord& record) { return checksum_before_last_field(record); }

File::File(const std::filesystem::path& path) : path_(path.string()) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail("file", std::strerror(errno));
}

File::~File() { ::close(descriptor_); }

void File::fail(const std::string& field, const std::string& what) const {
  throw DataError(fmt::format("{}: {}: {}", path_, field, what));
}

void File::read(void* to, uint64_t bytes, uint64_t offset, const char* field) const {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, at, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(field, std::strerror(errno));
    if (got == 0) fail(field, fmt::format("file ends at byte {}, expected {} more", offset, bytes));
    at += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<uint64_t>(got);
  }
}

CollectionFile::CollectionFile(const std::filesystem::path& path) : file_(path) {
  struct stat status {};
  if (::fstat(file_.descriptor(), &status) != 0) file_.fail("file", std::strerror(errno));
  if (!S_ISREG(status.st_mode)) file_.fail("file", "not a regular file");
  file_.read(&preamble_, sizeof preamble_, 0, "preamble");
  if (preamble_.magic != kMagic) file_.fail("preamble", "other first bytes, expected a packed collection");
  if (preamble_.endian_mark != kEndianMark) {
    file_.fail("preamble", fmt::format("endian mark {:#x}, expected {:#x}", preamble_.endian_mark, kEndianMark));
  }
  if (preamble_.version != kVersion) {
    file_.fail("preamble", fmt::format("version {}, expected {}: pack the files that it was made of again, with "
                                       "`foretime data pack`",
                                       preamble_.version, kVersion));
  }
  if (preamble_.checksum != own_checksum(preamble_))
    file_.fail("preamble", "wrong checksum, expected an undamaged file");
  const auto size = static_cast<uint64_t>(status.st_size);
  if (preamble_.file_bytes != size)
    file_.fail("file", fmt::format("{} bytes, expected {}", size, preamble_.file_bytes));
  const uint64_t offset = preamble_.directory_offset, bytes = preamble_.directory_bytes;
  if (offset < sizeof(Preamble) || offset > size || bytes != size - offset ||
      preamble_.group_count > bytes / sizeof(GroupRecord)) {
    file_.fail("preamble", fmt::format("directory of {} groups in {} bytes at {}, expected it to end the file",
                                       preamble_.group_count, bytes, offset));
  }
}

std::vector<char> CollectionFile::directory() const {
  std::vector<char> directory(preamble_.directory_bytes);
  file_.read(directory.data(), directory.size(), preamble_.directory_offset, "directory");
  if (checksum_of(std::span<const char>(directory)) != preamble_.directory_checksum) {
    file_.fail("directory", "wrong checksum, expected an undamaged file");
  }
  return directory;
}

void CollectionFile::check(const GroupRecord& record, uint64_t index) const {
  const std::string field = fmt::format("record of group {}", index);
  if (record.checksum != own_checksum(record)) file_.fail(field, "wrong checksum, expected an undamaged file");
  const uint64_t records = preamble_.group_count * sizeof(GroupRecord), end = preamble_.directory_bytes;
  if (record.name_offset < records || record.name_offset > end || record.name_bytes > end - record.name_offset) {
    file_.fail(field, "name outside the directory");
  }
  if (record.kind > 2) file_.fail(field, fmt::format("kind {}, expected 0, 1 or 2", record.kind));
  if (record.unit > 2) file_.fail(field, fmt::format("unit {}, expected 0, 1 or 2", record.unit));
  if (record.collection >= kCollections) {
    file_.fail(field, fmt::format("collection {}, expected below {}", record.collection, kCollections));
  }
  for (const int64_t count : {record.candidates, record.graphs, record.nodes, record.edges, record.configurable,
                              record.feature_count, record.node_type_count}) {
    if (count < 0) file_.fail(field, fmt::format("a size of {}, expected 0 or more", count));
  }
  for (const SectionRecord& section : record.sections) {
    const uint64_t limit = preamble_.directory_offset;
    if (section.bytes == 0) continue;
    if (section.offset < sizeof(Preamble) || section.offset % kAlignment != 0 || section.offset > limit ||
        section.bytes > limit - section.offset) {
      file_.fail(field, fmt::format("section of {} bytes at {}, expected a multiple of 64 and an end before {}",
                                    section.bytes, section.offset, limit));
    }
  }
}

GroupRecord CollectionFile::record(uint64_t index, std::string& name) const {
  GroupRecord record;
  file_.read(&record, sizeof record, preamble_.directory_offset + index * sizeof record, "directory");
  check(record, index);
  name.resize(record.name_bytes);
  file_.read(name.data(), name.size(), preamble_.directory_offset + record.name_offset, "directory");
  if (checksum_of(std::span(name)) != record.name_checksum) {
    file_.fail(fmt::format("name of group {}", index), "wrong checksum, expected an undamaged file");
  }
  return record;
}

class Sections::Mapping {
 public:
  Mapping(const File& file, uint64_t first, uint64_t last) {
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    start_ = first / page * page;
    bytes_ = last - start_;
    void* address = ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file.descriptor(), static_cast<off_t>(start_));
    if (address == MAP_FAILED) file.fail("mmap", fmt::format("{} bytes: {}", bytes_, std::strerror(errno)));
    address_ = static_cast<const std::byte*>(address);
    ::madvise(address, bytes_, MADV_WILLNEED);
  }
  ~Mapping() { ::munmap(const_cast<std::byte*>(address_), bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::span<const std::byte> bytes(const SectionRecord& section) const {
    return {address_ + (section.offset - start_), section.bytes};
  }

 private:
  const std::byte* address_ = nullptr;
  uint64_t start_ = 0, bytes_ = 0;
};

Sections::Sections(const File& file, const GroupRecord& record, std::string name, Section first, Section last,
                   bool verified)
    : file_(file), record_(record), name_(std::move(name)), verified_(verified) {
  uint64_t begin = std::numeric_limits<uint64_t>::max(), end = 0;
  for (size_t s = first; s <= last; ++s) {
    const SectionRecord& section = record.sections[s];
    if (section.bytes == 0) continue;
    begin = std::min(begin, section.offset);
    end = std::max(end, section.offset + section.bytes);
  }
  if (end != 0) mapping_ = std::make_shared<const Mapping>(file, begin, end);
}

void Sections::fail(const char* field, const std::string& what) const { file_.fail(name_ + ": " + field, what); }

std::span<const std::byte> Sections::bytes(Section section, const char* field) const {
  const SectionRecord& place = record_.sections[section];
  if (place.bytes == 0) return {};
  const auto bytes = mapping_->bytes(place);
  if (!verified_ && checksum(bytes) != place.checksum) fail(field, "wrong checksum, expected an undamaged file");
  return bytes;
}

std::span<const std::byte> Sections::checked_bytes(Section section, const char* field, int64_t count, int64_t width,
                                                   uint64_t item) const {
  const uint64_t found = record_.sections[section].bytes;
  uint64_t expected = found / item * item;
  if (count >= 0 && (__builtin_mul_overflow(static_cast<uint64_t>(count), static_cast<uint64_t>(width), &expected) ||
                     __builtin_mul_overflow(expected, item, &expected))) {
    fail(field, fmt::format("size of {} × {} overflows", count, width));
  }
  if (found != expected) fail(field, fmt::format("{} bytes, expected {}", found, expected));
  return bytes(section, field);
}

Group read_group(const File& file, const GroupRecord& record, const std::string& name, bool verified) {
  const Sections sections(file, record, name, kNodeFeatures, kPlans, verified);
  const int64_t nodes = record.nodes, candidates = record.candidates;
  const bool layout = static_cast<CandidateKind>(record.kind) == CandidateKind::layout;
  const bool tile = static_cast<CandidateKind>(record.kind) == CandidateKind::tile;
  if (nodes > std::numeric_limits<int32_t>::max() || record.graphs > nodes || record.configurable > nodes) {
    file.fail(
        name,
        fmt::format(
            "{} nodes, {} graphs and {} configurable nodes, expected at most 2^31 - 1 nodes and no more of the others",
            nodes, record.graphs, record.configurable));
  }
  Group group;
  group.name = name;
  group.kind = static_cast<CandidateKind>(record.kind);
  group.collection = static_cast<data::Collection>(record.collection);
  group.unit = static_cast<RuntimeUnit>(record.unit);
  group.candidates = candidates;
  group.graphs.feature_count = record.feature_count;
  group.graphs.node_type_count = record.node_type_count;
  group.graphs.graph_ptr = sections.array<int64_t>(kGraphPtr, "graph_ptr", record.graphs + 1);
  group.graphs.edge_ptr = sections.array<int64_t>(kEdgePtr, "edge_ptr", record.graphs + 1);
  group.graphs.node_features = sections.array<float>(kNodeFeatures, "node_features", nodes, record.feature_count);
  group.graphs.node_types = sections.array<uint8_t>(kNodeTypes, "node_types", nodes);
  group.graphs.edge_source = sections.array<int32_t>(kEdgeSource, "edge_source", record.edges);
  group.graphs.edge_target = sections.array<int32_t>(kEdgeTarget, "edge_target", record.edges);
  const int64_t configurable = layout ? record.configurable : 0;
  group.layout.nodes = sections.array<int32_t>(kLayoutNodes, "layout nodes", configurable);
  group.layout.row_ptr = sections.array<int64_t>(kLayoutRowPtr, "layout row_ptr", layout ? configurable + 1 : 0);
  group.layout.rows = sections.array<int8_t>(kLayoutRows, "layout rows", -1);
  group.layout.codes = sections.array<uint8_t>(kLayoutCodes, "layout codes", configurable, candidates);
  group.tile_features = sections.array<float>(kTileRows, "tile_features", tile ? candidates : 0, kTileFeatures);
  group.runtimes = sections.array<double>(kRuntimes, "runtimes", candidates);
  group.flops = sections.array<double>(kFlops, "flops", -1);
  group.node_splits = sections.array<int64_t>(kNodeSplits, "node_splits", -1);
  group.candidate_ids = split_ids(sections);
  return group;
}

}  // namespace foretime::data::packed
