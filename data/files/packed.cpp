#include "data/files/packed.h"

#include <algorithm>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/error.h"
#include "data/files/packed_file.h"
#include "data/graphs/validate.h"

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
  header.graphs = record.graphs;
  header.nodes = record.nodes;
  header.edges = record.edges;
  header.candidates = record.candidates;
  header.configurable = record.configurable;
  header.feature_count = record.feature_count;
  header.node_type_count = record.node_type_count;
  header.fingerprint = record.fingerprint;
  return header;
}

/// The record that the header came from.
GroupRecord record_of(const CollectionFile& collection, const GroupHeader& header) {
  const uint64_t count = collection.preamble().group_count;
  if (header.member < 0 || static_cast<uint64_t>(header.member) >= count) {
    collection.file().fail("group", fmt::format("{}, expected 0 … {}", header.member, count - 1));
  }
  std::string name;
  const GroupRecord record = collection.record(static_cast<uint64_t>(header.member), name);
  const bool same_name = name == header.name || qualified_name(header.collection, name) == header.name;
  if (!same_name || record.fingerprint != header.fingerprint) {
    collection.file().fail(
        header.name,
        fmt::format("now holds {} with fingerprint {:016x}, expected {:016x}: the file has changed since it was listed",
                    name, record.fingerprint, header.fingerprint));
  }
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

void verify_plans(const GroupHeader& header) {
  const CollectionFile collection(header.file);
  const GroupRecord record = record_of(collection, header);
  Sections(collection.file(), record, header.name, packed::kPlans, packed::kPlans).bytes(packed::kPlans, "plans");
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
  const CollectionFile collection(path);
  const std::vector<char> directory = collection.directory();
  std::vector<GroupHeader> headers;
  for (uint64_t g = 0; g < collection.preamble().group_count; ++g) {
    GroupRecord record;
    std::memcpy(&record, directory.data() + g * sizeof record, sizeof record);
    collection.check(record, g);
    headers.push_back(
        to_header(path, static_cast<int64_t>(g), {directory.data() + record.name_offset, record.name_bytes}, record));
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
  summary.runtimes = sections.array<double>(packed::kRuntimes, "runtimes", record.candidates);
  summary.flops = sections.array<double>(packed::kFlops, "flops", -1);
  validate_runtimes(summary.runtimes.span(), summary.flops.span(), record.candidates,
                    collection.file().path() + ": " + header.name);
  summary.configurations = sections.array<uint64_t>(packed::kConfigurations, "configurations", record.candidates);
  const bool tile = header.kind == CandidateKind::tile;
  if (record.feature_count > int64_t{1} << 31)
    sections.fail("feature_count", fmt::format("{}, expected 0 … 2^31", record.feature_count));
  const int64_t features = record.feature_count, width = features + (tile ? kTileFeatures : 0);
  const auto all = sections.array<double>(packed::kStatistics, "statistics", packed::kStatisticsRows, width);
  summary.features = statistics_of(all, sections, 0, width, 0, features, record.nodes);
  summary.log_features = statistics_of(all, sections, 4, width, 0, features, record.nodes);
  if (tile) {
    summary.tile_features = statistics_of(all, sections, 0, width, features, kTileFeatures, record.candidates);
    summary.log_tile_features = statistics_of(all, sections, 4, width, features, kTileFeatures, record.candidates);
  }
  return summary;
}

std::optional<Array<std::byte>> load_packed_plan(const GroupHeader& header, uint64_t key) {
  const CollectionFile collection(header.file);
  const GroupRecord record = record_of(collection, header);
  if (record.sections[packed::kPlans].bytes == 0) return std::nullopt;
  const Sections sections(collection.file(), record, header.name, packed::kPlans, packed::kPlans);
  const auto bytes = sections.bytes(packed::kPlans, "plans");
  packed::PlanTable table{};
  if (bytes.size() >= sizeof table) std::memcpy(&table, bytes.data(), sizeof table);
  if (table.count > (bytes.size() - std::min(bytes.size(), sizeof table)) / sizeof(packed::PlanRecord))
    sections.fail("plans", fmt::format("{} of them in {} bytes", table.count, bytes.size()));
  for (uint64_t i = 0; i < table.count; ++i) {
    packed::PlanRecord plan;
    std::memcpy(&plan, bytes.data() + sizeof table + i * sizeof plan, sizeof plan);
    if (plan.key != key) continue;
    if (plan.offset > bytes.size() || plan.bytes > bytes.size() - plan.offset)
      sections.fail("plans", fmt::format("plan {:016x} ends after its section", key));
    return Array<std::byte>(bytes.subspan(plan.offset, plan.bytes), sections.keeper());
  }
  return std::nullopt;
}

int64_t verify_packed(const std::filesystem::path& file) {
  const auto headers = packed_headers(file);
  for (const GroupHeader& header : headers) {
    const GroupSummary expected = summarize(load_packed(header)), found = load_packed_summary(header);
    const bool right = std::equal(found.configurations.begin(), found.configurations.end(),
                                  expected.configurations.begin(), expected.configurations.end()) &&
                       same(found.features, expected.features) && same(found.log_features, expected.log_features) &&
                       same(found.tile_features, expected.tile_features) &&
                       same(found.log_tile_features, expected.log_tile_features);
    if (!right)
      throw DataError(fmt::format("{}: {}: summary, expected that of the group's contents: pack the data again",
                                  file.string(), header.name));
    verify_plans(header);
  }
  return static_cast<int64_t>(headers.size());
}

}  // namespace foretime::data
