#include "data/files/packed.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/error.h"
#include "base/files.h"
#include "base/read_input.h"
#include "data/files/file_form.h"
#include "data/files/packed_file.h"
#include "data/graphs/validate.h"

namespace foretime::data::packed {
namespace {

template <class Record>
uint64_t checksum_before_last_field(const Record& record) {
  return checksum_of(std::as_bytes(std::span(&record, 1)).first(offsetof(Record, checksum)));
}

std::vector<std::string> split_ids(const Sections& sections) {
  std::vector<std::string> ids;
  auto rest = sections.bytes(kCandidateIds, "candidate_ids");
  while (!rest.empty()) {
    uint32_t length = 0;
    if (rest.size() >= sizeof length) std::memcpy(&length, rest.data(), sizeof length);
    if (rest.size() < sizeof length || rest.size() - sizeof length < length)
      sections.fail("candidate_ids", "cut off after {} names", ids.size());
    ids.emplace_back(reinterpret_cast<const char*>(rest.data()) + sizeof length, length);
    rest = rest.subspan(sizeof length + length);
  }
  return ids;
}

}  // namespace

uint64_t own_checksum(const Preamble& preamble) { return checksum_before_last_field(preamble); }
uint64_t own_checksum(const GroupRecord& record) { return checksum_before_last_field(record); }

File::File(const std::filesystem::path& path)
    : path_(path.string()), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor() < 0 && is_storage_failure(errno)) throw_file_error(path, "cannot be read", errno);
  if (descriptor() < 0) fail("file", "{}", std::strerror(errno));
}

void File::read(void* to, uint64_t bytes, uint64_t offset, const char* field) const {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = TEMP_FAILURE_RETRY(::pread(descriptor(), at, bytes, offset));
    if (got < 0 && is_storage_failure(errno)) throw_file_error(path_, fmt::format("{} cannot be read", field), errno);
    if (got < 0) fail(field, "{}", std::strerror(errno));
    if (got == 0) fail(field, "file ends at byte {}, expected {} more", offset, bytes);
    at += got;
    offset += got;
    bytes -= got;
  }
}

CollectionFile::CollectionFile(const std::filesystem::path& path) : file_(path) {
  struct stat status {};
  if (::fstat(file_.descriptor(), &status) != 0) {
    if (is_storage_failure(errno)) throw_file_error(path, "cannot be read", errno);
    file_.fail("file", "{}", std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) file_.fail("file", "not a regular file");
  file_.read(&preamble_, sizeof preamble_, 0, "preamble");
  if (preamble_.magic != kMagic)
    file_.fail("preamble", "found other first bytes, expected those of a packed collection");
  if (preamble_.endian_mark != kEndianMark)
    file_.fail("preamble", "endian mark {:#x}, expected {:#x}", preamble_.endian_mark, kEndianMark);
  if (preamble_.version != kVersion)
    file_.fail("preamble", "version {}, expected {}: pack its source files again, with `foretime data pack`",
               preamble_.version, kVersion);
  if (preamble_.checksum != own_checksum(preamble_))
    file_.fail("preamble", "wrong checksum, expected an undamaged file");
  const uint64_t size = status.st_size;
  if (preamble_.file_bytes != size) file_.fail("file", "{} bytes, expected {}", size, preamble_.file_bytes);
  const uint64_t offset = preamble_.directory_offset, bytes = preamble_.directory_bytes;
  if (offset < sizeof(Preamble) || offset > size || bytes != size - offset ||
      preamble_.group_count > bytes / sizeof(GroupRecord)) {
    file_.fail("preamble", "directory of {} groups in {} bytes at {}, expected it to end the file",
               preamble_.group_count, bytes, offset);
  }
}

std::vector<char> CollectionFile::directory() const {
  std::vector<char> directory(preamble_.directory_bytes);
  file_.read(directory.data(), directory.size(), preamble_.directory_offset, "directory");
  if (checksum_of(std::span<const char>(directory)) != preamble_.directory_checksum)
    file_.fail("directory", "wrong checksum, expected an undamaged file");
  return directory;
}

void CollectionFile::check(const GroupRecord& record, uint64_t index) const {
  const std::string field = fmt::format("record of group {}", index);
  if (record.checksum != own_checksum(record)) file_.fail(field, "wrong checksum, expected an undamaged file");
  const uint64_t records = preamble_.group_count * sizeof(GroupRecord), end = preamble_.directory_bytes;
  if (record.name_offset < records || record.name_offset > end || record.name_bytes > end - record.name_offset)
    file_.fail(field, "name outside the directory");
  if (record.kind > 2) file_.fail(field, "kind {}, expected 0, 1 or 2", record.kind);
  if (record.unit > 2) file_.fail(field, "unit {}, expected 0, 1 or 2", record.unit);
  if (record.collection >= kCollections)
    file_.fail(field, "collection {}, expected below {}", record.collection, kCollections);
  const auto& sizes = record.sizes;
  for (const int64_t count : {sizes.candidates, sizes.graphs, sizes.nodes, sizes.edges, sizes.configurable,
                              sizes.feature_count, sizes.node_type_count}) {
    if (count < 0) file_.fail(field, "a size of {}, expected 0 or more", count);
  }
  for (const SectionRecord& section : record.sections) {
    const uint64_t limit = preamble_.directory_offset;
    if (section.bytes == 0) continue;
    if (section.offset < sizeof(Preamble) || section.offset % kAlignment != 0 || section.offset > limit ||
        section.bytes > limit - section.offset) {
      file_.fail(field, "section of {} bytes at {}, expected a multiple of 64 and an end before {}", section.bytes,
                 section.offset, limit);
    }
  }
}

GroupRecord CollectionFile::record(uint64_t index, std::string& name) const {
  GroupRecord record;
  file_.read(&record, sizeof record, preamble_.directory_offset + index * sizeof record, "directory");
  check(record, index);
  name.resize(record.name_bytes);
  file_.read(name.data(), name.size(), preamble_.directory_offset + record.name_offset, "directory");
  if (checksum_of(std::span(name)) != record.name_checksum)
    file_.fail(fmt::format("name of group {}", index), "wrong checksum, expected an undamaged file");
  return record;
}

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
  if (end == 0) return;
  mapping_ = std::make_shared<const MappedFile>(file.descriptor(), file.path(), begin, end);
  mapping_->will_need();
}

std::span<const std::byte> Sections::bytes(Section section, const char* field) const {
  const SectionRecord& place = record_.sections[section];
  if (place.bytes == 0) return {};
  const auto bytes = mapping_->bytes(place.offset, place.bytes);
  if (!verified_ && checksum_of(bytes) != place.checksum) fail(field, "wrong checksum, expected an undamaged file");
  return bytes;
}

std::span<const std::byte> Sections::checked_bytes(Section section, const char* field, int64_t count, int64_t width,
                                                   uint64_t item) const {
  const uint64_t found = record_.sections[section].bytes;
  uint64_t expected = found / item * item;
  if (count >= 0 && (__builtin_mul_overflow(static_cast<uint64_t>(count), static_cast<uint64_t>(width), &expected) ||
                     __builtin_mul_overflow(expected, item, &expected))) {
    fail(field, "size of {} × {} overflows", count, width);
  }
  if (found != expected) fail(field, "{} bytes, expected {}", found, expected);
  return bytes(section, field);
}

Group read_group(const File& file, const GroupRecord& record, const std::string& name, bool verified) {
  const Sections sections(file, record, name, kNodeFeatures, kNote, verified);
  const GroupSizes& sizes = record.sizes;
  if (sizes.nodes > std::numeric_limits<int32_t>::max() || sizes.graphs > sizes.nodes ||
      sizes.configurable > sizes.nodes) {
    file.fail(name,
              "{} nodes, {} graphs and {} configurable nodes, "
              "expected at most 2^31 - 1 nodes, and no more graphs or configurable nodes than nodes",
              sizes.nodes, sizes.graphs, sizes.configurable);
  }
  Group group;
  group.name = name;
  group.kind = static_cast<CandidateKind>(record.kind);
  group.collection = static_cast<data::Collection>(record.collection);
  group.unit = static_cast<RuntimeUnit>(record.unit);
  group.candidates = sizes.candidates;
  group.graphs.feature_count = sizes.feature_count;
  group.graphs.node_type_count = sizes.node_type_count;
  group.graphs.node_features = sections.array<float>(kNodeFeatures, "node_features", sizes.nodes, sizes.feature_count);
  const auto read = [&]<class T>(Section section, const char* field, Array<T>& array, int64_t count, int64_t width) {
    array = sections.array<T>(section, field, count, width);
  };
  visit_sections(group, sizes, read);
  group.layout.codes =
      sections.array<uint8_t>(kLayoutCodes, "layout codes", group.layout.configurable(), sizes.candidates);
  group.runtimes = sections.array<double>(kRuntimes, "runtimes", sizes.candidates);
  group.flops = sections.array<double>(kFlops, "flops", -1);
  group.candidate_ids = split_ids(sections);
  return group;
}
}  // namespace foretime::data::packed

namespace foretime::data {
namespace {

using packed::CollectionFile;
using packed::GroupRecord;
using packed::Sections;

GroupHeader to_header(const std::filesystem::path& file, int64_t member, std::string name, const GroupRecord& record) {
  GroupHeader header;
  header.file = file;
  header.member = member;
  header.name = std::move(name);
  header.kind = static_cast<CandidateKind>(record.kind);
  header.collection = static_cast<data::Collection>(record.collection);
  static_cast<GroupSizes&>(header) = record.sizes;
  header.fingerprint = record.fingerprint;
  return header;
}

/// The record that the header came from.
GroupRecord record_of(const CollectionFile& collection, const GroupHeader& header) {
  const uint64_t count = collection.preamble().group_count;
  if (header.member < 0 || std::cmp_greater_equal(header.member, count))
    collection.file().fail("group", "{}, expected 0 … {}", header.member, count - 1);
  std::string name;
  const GroupRecord record = collection.record(header.member, name);
  const bool same_name = name == header.name || qualified_name(header.collection, name) == header.name;
  if (!same_name || record.fingerprint != header.fingerprint)
    collection.file().fail(
        header.name,
        "now holds {} with fingerprint {:016x}, expected {:016x}: the file has changed since it was listed", name,
        record.fingerprint, header.fingerprint);
  return record;
}

/// Row `row` … `row` + 3 of the statistics, and of them the columns from `first` on.
ColumnStatistics statistics_of(const Array<double>& all, const Sections& sections, int64_t row, int64_t width,
                               int64_t first, int64_t columns, int64_t rows) {
  const auto part = [&](int64_t r) {
    return Array<double>(all.subspan((row + r) * width + first, columns), sections.keeper());
  };
  return {rows, part(0), part(1), part(2), part(3)};
}

bool same(const Array<double>& a, const Array<double>& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

bool same(const ColumnStatistics& a, const ColumnStatistics& b) {
  return a.rows == b.rows && same(a.sums, b.sums) && same(a.squares, b.squares) && same(a.minima, b.minima) &&
         same(a.maxima, b.maxima);
}

}  // namespace

bool is_packed(const std::filesystem::path& file) {
  return first_bytes(file, packed::kMagic.size()) == std::string_view(packed::kMagic.data(), packed::kMagic.size());
}

std::vector<GroupHeader> packed_headers(const std::filesystem::path& path) {
  const CollectionFile collection(path);
  const std::vector<char> directory = collection.directory();
  std::vector<GroupHeader> headers;
  for (uint64_t g = 0; g < collection.preamble().group_count; ++g) {
    GroupRecord record;
    std::memcpy(&record, directory.data() + g * sizeof record, sizeof record);
    collection.check(record, g);
    headers.push_back(to_header(path, g, {directory.data() + record.name_offset, record.name_bytes}, record));
  }
  return headers;
}

Group load_packed(const GroupHeader& header) {
  const CollectionFile collection(header.file);
  const GroupRecord record = record_of(collection, header);
  Group group = packed::read_group(collection.file(), record, header.name);
  group.name = header.name;
  validate_group(group, collection.file().path() + ": " + group.name);
  return group;
}

GroupSummary load_packed_summary(const GroupHeader& header) {
  const CollectionFile collection(header.file);
  const GroupRecord record = record_of(collection, header);
  const Sections sections(collection.file(), record, header.name, packed::kRuntimes, packed::kStatistics);
  GroupSummary summary;
  summary.runtimes = sections.array<double>(packed::kRuntimes, "runtimes", record.sizes.candidates);
  summary.flops = sections.array<double>(packed::kFlops, "flops", -1);
  validate_runtimes(summary.runtimes.span(), summary.flops.span(), record.sizes.candidates,
                    collection.file().path() + ": " + header.name, header.kind == CandidateKind::program);
  summary.configurations = sections.array<uint64_t>(packed::kConfigurations, "configurations", record.sizes.candidates);
  const bool tile = header.kind == CandidateKind::tile;
  if (record.sizes.feature_count > int64_t{1} << 31)
    sections.fail("feature_count", "{}, expected 0 … 2^31", record.sizes.feature_count);
  const int64_t features = record.sizes.feature_count, width = features + (tile ? kTileFeatures : 0);
  const auto all = sections.array<double>(packed::kStatistics, "statistics", packed::kStatisticsRows, width);
  summary.features = statistics_of(all, sections, 0, width, 0, features, record.sizes.nodes);
  summary.log_features = statistics_of(all, sections, 4, width, 0, features, record.sizes.nodes);
  if (tile) {
    summary.tile_features = statistics_of(all, sections, 0, width, features, kTileFeatures, record.sizes.candidates);
    summary.log_tile_features =
        statistics_of(all, sections, 4, width, features, kTileFeatures, record.sizes.candidates);
  }
  return summary;
}

std::string packed_note(const GroupHeader& header) {
  const CollectionFile collection(header.file);
  const GroupRecord record = record_of(collection, header);
  const Sections sections(collection.file(), record, header.name, packed::kNote, packed::kNote);
  const auto bytes = sections.bytes(packed::kNote, "note");
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

int64_t verify_packed(const std::filesystem::path& file) {
  expect_form(file, {FileForm::packed}, "a packed data set");
  const auto headers = packed_headers(file);
  for (const GroupHeader& header : headers) {
    const GroupSummary expected = summarize(load_packed(header)), found = load_packed_summary(header);
    const bool right = std::equal(found.configurations.begin(), found.configurations.end(),
                                  expected.configurations.begin(), expected.configurations.end()) &&
                       same(found.features, expected.features) && same(found.log_features, expected.log_features) &&
                       same(found.tile_features, expected.tile_features) &&
                       same(found.log_tile_features, expected.log_tile_features);
    if (!right)
      throw DataError("{}: {}: found a summary that differs from the group's contents: pack the data again",
                      file.string(), header.name);
    packed_note(header);
  }
  return headers.size();
}

}  // namespace foretime::data
