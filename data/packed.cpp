#include "data/packed.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/checksum.h"
#include "data/error.h"
#include "data/packed_layout.h"
#include "data/validate.h"

namespace foretime::data {
namespace {

using packed::GroupRecord;
using packed::Preamble;
using packed::SectionRecord;

template <class Record>
uint64_t checksum_before_last_field(const Record& record) {
  return checksum(std::as_bytes(std::span(&record, 1)).first(offsetof(Record, checksum)));
}

/// An open collection whose preamble has been checked.
class PackedFile {
 public:
  explicit PackedFile(const std::filesystem::path& path) : path_(path.string()) {
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail("file", std::strerror(errno));
    try {
      check_preamble();
    } catch (...) {
      ::close(descriptor_);
      throw;
    }
  }
  ~PackedFile() { ::close(descriptor_); }
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  [[noreturn]] void fail(const std::string& field, const std::string& what) const {
    throw DataError(fmt::format("{}: {}: {}", path_, field, what));
  }
  const Preamble& preamble() const { return preamble_; }
  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }

  void read(void* to, uint64_t bytes, uint64_t offset, const char* field) const {
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

  void check(const GroupRecord& record, uint64_t index) const {
    const std::string field = fmt::format("record of group {}", index);
    if (record.checksum != checksum_before_last_field(record))
      fail(field, "wrong checksum, expected an undamaged file");
    const uint64_t records = preamble_.group_count * sizeof(GroupRecord), end = preamble_.directory_bytes;
    if (record.name_offset < records || record.name_offset > end || record.name_bytes > end - record.name_offset) {
      fail(field, "name outside the directory");
    }
    if (record.kind > 2) fail(field, fmt::format("kind {}, expected 0, 1 or 2", record.kind));
    if (record.unit > 2) fail(field, fmt::format("unit {}, expected 0, 1 or 2", record.unit));
    for (const int64_t count : {record.candidates, record.graphs, record.nodes, record.edges, record.configurable,
                                record.feature_count, record.node_type_count}) {
      if (count < 0) fail(field, fmt::format("a size of {}, expected 0 or more", count));
    }
    for (const SectionRecord& section : record.sections) {
      const uint64_t limit = preamble_.directory_offset;
      if (section.bytes == 0) continue;
      if (section.offset < sizeof(Preamble) || section.offset % packed::kAlignment != 0 || section.offset > limit ||
          section.bytes > limit - section.offset) {
        fail(field, fmt::format("section of {} bytes at {}, expected a multiple of 64 and an end before {}",
                                section.bytes, section.offset, limit));
      }
    }
  }

 private:
  void check_preamble() {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) fail("file", std::strerror(errno));
    if (!S_ISREG(status.st_mode)) fail("file", "not a regular file");
    read(&preamble_, sizeof preamble_, 0, "preamble");
    if (preamble_.magic != packed::kMagic) fail("preamble", "other first bytes, expected a packed collection");
    if (preamble_.endian_mark != packed::kEndianMark) {
      fail("preamble", fmt::format("endian mark {:#x}, expected {:#x}", preamble_.endian_mark, packed::kEndianMark));
    }
    if (preamble_.version != packed::kVersion) {
      fail("preamble",
           fmt::format("version {}, expected {}: pack the data again", preamble_.version, packed::kVersion));
    }
    if (preamble_.checksum != checksum_before_last_field(preamble_))
      fail("preamble", "wrong checksum, expected an undamaged file");
    const auto size = static_cast<uint64_t>(status.st_size);
    if (preamble_.file_bytes != size) fail("file", fmt::format("{} bytes, expected {}", size, preamble_.file_bytes));
    const uint64_t offset = preamble_.directory_offset, bytes = preamble_.directory_bytes;
    if (offset < sizeof(Preamble) || offset > size || bytes != size - offset ||
        preamble_.group_count > bytes / sizeof(GroupRecord)) {
      fail("preamble", fmt::format("directory of {} groups in {} bytes at {}, expected it to end the file",
                                   preamble_.group_count, bytes, offset));
    }
  }

  std::string path_;
  int descriptor_ = -1;
  Preamble preamble_{};
};

/// The bytes of one group's sections, mapped for as long as an array of the group lives.
class Mapping {
 public:
  Mapping(const PackedFile& file, const GroupRecord& record) {
    uint64_t first = std::numeric_limits<uint64_t>::max(), last = 0;
    for (const SectionRecord& section : record.sections) {
      if (section.bytes == 0) continue;
      first = std::min(first, section.offset);
      last = std::max(last, section.offset + section.bytes);
    }
    if (last == 0) return;
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    start_ = first / page * page;
    bytes_ = last - start_;
    void* address = ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file.descriptor(), static_cast<off_t>(start_));
    if (address == MAP_FAILED) file.fail("mmap", fmt::format("{} bytes: {}", bytes_, std::strerror(errno)));
    address_ = static_cast<const std::byte*>(address);
    ::madvise(address, bytes_, MADV_WILLNEED);
  }
  ~Mapping() {
    if (address_ != nullptr) ::munmap(const_cast<std::byte*>(address_), bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::span<const std::byte> bytes(const SectionRecord& section) const {
    if (section.bytes == 0) return {};
    return {address_ + (section.offset - start_), section.bytes};
  }

 private:
  const std::byte* address_ = nullptr;
  uint64_t start_ = 0, bytes_ = 0;
};

/// Reads the sections of one group, each against its checksum and the size that the record's counts ask for.
class SectionReader {
 public:
  SectionReader(const PackedFile& file, const GroupRecord& record, std::string name)
      : file_(file), record_(record), name_(std::move(name)), mapping_(std::make_shared<Mapping>(file, record)) {}

  std::span<const std::byte> bytes(packed::Section section, const char* field) const {
    const SectionRecord& place = record_.sections[section];
    const auto bytes = mapping_->bytes(place);
    if (place.bytes != 0 && checksum(bytes) != place.checksum) {
      file_.fail(name_ + ": " + field, "wrong checksum, expected an undamaged file");
    }
    return bytes;
  }

  /// `count` < 0: as many as there are.
  template <class T>
  Array<T> array(packed::Section section, const char* field, int64_t count, int64_t width = 1) const {
    const uint64_t found = record_.sections[section].bytes;
    uint64_t expected = found / sizeof(T) * sizeof(T);
    if (count >= 0 && (__builtin_mul_overflow(static_cast<uint64_t>(count), static_cast<uint64_t>(width), &expected) ||
                       __builtin_mul_overflow(expected, sizeof(T), &expected))) {
      file_.fail(name_ + ": " + field, fmt::format("size of {} × {} overflows", count, width));
    }
    if (found != expected) file_.fail(name_ + ": " + field, fmt::format("{} bytes, expected {}", found, expected));
    const auto raw = bytes(section, field);
    return Array<T>(std::span(reinterpret_cast<const T*>(raw.data()), raw.size() / sizeof(T)), mapping_);
  }

  std::vector<std::string> ids() const {
    std::vector<std::string> ids;
    auto rest = bytes(packed::kCandidateIds, "candidate_ids");
    while (!rest.empty()) {
      uint32_t length = 0;
      if (rest.size() >= sizeof length) std::memcpy(&length, rest.data(), sizeof length);
      if (rest.size() < sizeof length || rest.size() - sizeof length < length) {
        file_.fail(name_ + ": candidate_ids", fmt::format("cut off after {} names", ids.size()));
      }
      ids.emplace_back(reinterpret_cast<const char*>(rest.data()) + sizeof length, length);
      rest = rest.subspan(sizeof length + length);
    }
    return ids;
  }

 private:
  const PackedFile& file_;
  const GroupRecord& record_;
  std::string name_;
  std::shared_ptr<const Mapping> mapping_;
};

GroupHeader to_header(const std::filesystem::path& file, int64_t member, std::string name, const GroupRecord& record) {
  GroupHeader header;
  header.file = file;
  header.member = member;
  header.name = std::move(name);
  header.kind = static_cast<CandidateKind>(record.kind);
  header.graphs = record.graphs;
  header.nodes = record.nodes;
  header.edges = record.edges;
  header.candidates = record.candidates;
  header.configurable = record.configurable;
  header.feature_count = record.feature_count;
  header.fingerprint = record.fingerprint;
  return header;
}

}  // namespace

bool is_packed(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  std::array<char, packed::kMagic.size()> magic{};
  const ssize_t got = ::pread(descriptor, magic.data(), magic.size(), 0);
  ::close(descriptor);
  return got == static_cast<ssize_t>(magic.size()) && magic == packed::kMagic;
}

std::vector<GroupHeader> packed_headers(const std::filesystem::path& path) {
  const PackedFile file(path);
  const Preamble& preamble = file.preamble();
  std::vector<char> directory(preamble.directory_bytes);
  file.read(directory.data(), directory.size(), preamble.directory_offset, "directory");
  if (checksum_of(std::span<const char>(directory)) != preamble.directory_checksum) {
    file.fail("directory", "wrong checksum, expected an undamaged file");
  }
  std::vector<GroupHeader> headers;
  headers.reserve(preamble.group_count);
  for (uint64_t g = 0; g < preamble.group_count; ++g) {
    GroupRecord record;
    std::memcpy(&record, directory.data() + g * sizeof record, sizeof record);
    file.check(record, g);
    headers.push_back(
        to_header(path, static_cast<int64_t>(g), {directory.data() + record.name_offset, record.name_bytes}, record));
  }
  return headers;
}

Group load_packed(const GroupHeader& header) {
  const PackedFile file(header.file);
  const Preamble& preamble = file.preamble();
  if (header.member < 0 || static_cast<uint64_t>(header.member) >= preamble.group_count) {
    file.fail("group", fmt::format("{}, expected 0 … {}", header.member, preamble.group_count - 1));
  }
  const auto index = static_cast<uint64_t>(header.member);
  GroupRecord record;
  file.read(&record, sizeof record, preamble.directory_offset + index * sizeof record, "directory");
  file.check(record, index);
  std::string name(record.name_bytes, '\0');
  file.read(name.data(), name.size(), preamble.directory_offset + record.name_offset, "directory");
  if (checksum_of(std::span(name)) != record.name_checksum) {
    file.fail(fmt::format("name of group {}", index), "wrong checksum, expected an undamaged file");
  }
  if (name != header.name || record.fingerprint != header.fingerprint) {
    file.fail(
        header.name,
        fmt::format("now holds {} with fingerprint {:016x}, expected {:016x}: the file has changed since it was listed",
                    name, record.fingerprint, header.fingerprint));
  }

  const SectionReader sections(file, record, name);
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
  group.kind = static_cast<CandidateKind>(record.kind);
  group.unit = static_cast<RuntimeUnit>(record.unit);
  group.candidates = candidates;
  group.graphs.feature_count = record.feature_count;
  group.graphs.node_type_count = record.node_type_count;
  group.graphs.graph_ptr = sections.array<int64_t>(packed::kGraphPtr, "graph_ptr", record.graphs + 1);
  group.graphs.edge_ptr = sections.array<int64_t>(packed::kEdgePtr, "edge_ptr", record.graphs + 1);
  group.graphs.node_features =
      sections.array<float>(packed::kNodeFeatures, "node_features", nodes, record.feature_count);
  group.graphs.node_types = sections.array<uint8_t>(packed::kNodeTypes, "node_types", nodes);
  group.graphs.edge_source = sections.array<int32_t>(packed::kEdgeSource, "edge_source", record.edges);
  group.graphs.edge_target = sections.array<int32_t>(packed::kEdgeTarget, "edge_target", record.edges);
  const int64_t configurable = layout ? record.configurable : 0;
  group.layout.nodes = sections.array<int32_t>(packed::kLayoutNodes, "layout nodes", configurable);
  group.layout.row_ptr =
      sections.array<int64_t>(packed::kLayoutRowPtr, "layout row_ptr", layout ? configurable + 1 : 0);
  group.layout.rows = sections.array<int8_t>(packed::kLayoutRows, "layout rows", -1);
  group.layout.codes = sections.array<uint8_t>(packed::kLayoutCodes, "layout codes", configurable, candidates);
  group.tile_features = sections.array<float>(packed::kTileRows, "tile_features", tile ? candidates : 0, kTileFeatures);
  group.runtimes = sections.array<double>(packed::kRuntimes, "runtimes", candidates);
  group.flops = sections.array<double>(packed::kFlops, "flops", -1);
  group.node_splits = sections.array<int64_t>(packed::kNodeSplits, "node_splits", -1);
  group.candidate_ids = sections.ids();
  group.name = std::move(name);
  validate_group(group, file.path() + ": " + group.name);
  return group;
}

int64_t verify_packed(const std::filesystem::path& file) {
  const auto headers = packed_headers(file);
  for (const GroupHeader& header : headers) load_packed(header);
  return static_cast<int64_t>(headers.size());
}

}  // namespace foretime::data
