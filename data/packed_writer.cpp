#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <unordered_set>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "data/checksum.h"
#include "data/error.h"
#include "data/packed.h"
#include "data/packed_layout.h"
#include "data/validate.h"

namespace foretime::data {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

/// Syncs the folder, so that the rename itself survives a loss of power.
void sync_folder(const std::filesystem::path& file) {
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

std::vector<char> join_ids(const std::vector<std::string>& ids) {
  std::vector<char> bytes;
  for (const std::string& id : ids) {
    const auto length = static_cast<uint32_t>(id.size());
    const char* at = reinterpret_cast<const char*>(&length);
    bytes.insert(bytes.end(), at, at + sizeof length);
    bytes.insert(bytes.end(), id.begin(), id.end());
  }
  return bytes;
}

/// A fingerprint of names, shapes and contents: the record without the places of its sections.
uint64_t fingerprint_of(packed::GroupRecord record) {
  record.name_offset = 0;
  for (auto& section : record.sections) section.offset = 0;
  return checksum_of(std::span(&record, 1));
}

}  // namespace

struct PackedWriter::State {
  std::filesystem::path file, aside;
  std::unique_ptr<std::FILE, FileCloser> out;
  uint64_t position = 0;
  std::vector<packed::GroupRecord> records;
  std::string names;
  std::unordered_set<std::string> seen;

  [[noreturn]] void fail(const char* what) const {
    throw DataError(fmt::format("{}: {}: {}", aside.string(), what, std::strerror(errno)));
  }
  void write(const void* bytes, size_t count) {
    if (count != 0 && std::fwrite(bytes, 1, count, out.get()) != count) fail("cannot write");
    position += count;
  }
  void pad() {
    constexpr std::array<char, packed::kAlignment> kZeros{};
    write(kZeros.data(), (packed::kAlignment - position % packed::kAlignment) % packed::kAlignment);
  }
  template <class T>
  packed::SectionRecord section(std::span<const T> values) {
    if (values.empty()) return {};
    pad();
    const packed::SectionRecord record{position, values.size_bytes(), checksum_of(values)};
    write(values.data(), values.size_bytes());
    return record;
  }
};

PackedWriter::PackedWriter(std::filesystem::path file) : state_(std::make_unique<State>()) {
  state_->file = std::move(file);
  state_->aside = state_->file;
  state_->aside += fmt::format(".{}.partial", ::getpid());
  state_->out.reset(std::fopen(state_->aside.c_str(), "wbe"));
  if (!state_->out) state_->fail("cannot create");
  const packed::Preamble unfinished{};
  state_->write(&unfinished, sizeof unfinished);
}

PackedWriter::~PackedWriter() {
  if (!state_->out) return;
  state_->out.reset();
  std::error_code ignored;
  std::filesystem::remove(state_->aside, ignored);
}

void PackedWriter::add(const Group& group, uint64_t fingerprint) {
  State& state = *state_;
  const std::string origin = state.file.string() + ": " + group.name;
  validate_group(group, origin);
  if (!state.records.empty() && state.records[0].kind != static_cast<uint32_t>(group.kind)) {
    throw DataError(fmt::format("{}: kind {}, expected {} as in the groups before it", origin,
                                static_cast<int>(group.kind), state.records[0].kind));
  }
  if (!state.seen.insert(group.name).second) {
    throw DataError(fmt::format("{}: a second group of this name, expected different names in a collection", origin));
  }

  using namespace packed;
  GroupRecord record{};
  record.name_offset = state.names.size();  // completed by finish(), which knows where the names begin
  record.name_bytes = group.name.size();
  record.name_checksum = checksum_of(std::span(group.name));
  record.kind = static_cast<uint32_t>(group.kind);
  record.unit = static_cast<uint32_t>(group.unit);
  record.candidates = group.candidates;
  record.graphs = group.graphs.graphs();
  record.nodes = group.graphs.nodes();
  record.edges = group.graphs.edges();
  record.configurable = group.layout.configurable();
  record.feature_count = group.graphs.feature_count;
  record.node_type_count = group.graphs.node_type_count;
  const bool layout = group.kind == CandidateKind::layout;
  const std::vector<char> ids = join_ids(group.candidate_ids);
  record.sections[kGraphPtr] = state.section(group.graphs.graph_ptr.span());
  record.sections[kEdgePtr] = state.section(group.graphs.edge_ptr.span());
  record.sections[kNodeFeatures] = state.section(group.graphs.node_features.span());
  record.sections[kNodeTypes] = state.section(group.graphs.node_types.span());
  record.sections[kEdgeSource] = state.section(group.graphs.edge_source.span());
  record.sections[kEdgeTarget] = state.section(group.graphs.edge_target.span());
  if (layout) {
    record.sections[kLayoutNodes] = state.section(group.layout.nodes.span());
    record.sections[kLayoutRowPtr] = state.section(group.layout.row_ptr.span());
    record.sections[kLayoutRows] = state.section(group.layout.rows.span());
    record.sections[kLayoutCodes] = state.section(group.layout.codes.span());
  }
  record.sections[kTileRows] = state.section(group.tile_features.span());
  record.sections[kRuntimes] = state.section(group.runtimes.span());
  record.sections[kFlops] = state.section(group.flops.span());
  record.sections[kNodeSplits] = state.section(group.node_splits.span());
  record.sections[kCandidateIds] = state.section(std::span<const char>(ids));
  record.fingerprint = fingerprint != 0 ? fingerprint : fingerprint_of(record);
  state.records.push_back(record);
  state.names += group.name;
}

void PackedWriter::finish() {
  State& state = *state_;
  if (state.records.empty()) throw DataError(state.file.string() + ": no groups, expected at least one");
  const uint64_t records_bytes = state.records.size() * sizeof(packed::GroupRecord);
  std::vector<char> directory(records_bytes + state.names.size());
  for (packed::GroupRecord& record : state.records) {
    record.name_offset += records_bytes;
    record.checksum = checksum(std::as_bytes(std::span(&record, 1)).first(offsetof(packed::GroupRecord, checksum)));
  }
  std::memcpy(directory.data(), state.records.data(), records_bytes);
  std::copy(state.names.begin(), state.names.end(), directory.begin() + static_cast<std::ptrdiff_t>(records_bytes));

  state.pad();
  packed::Preamble preamble{};
  preamble.magic = packed::kMagic;
  preamble.endian_mark = packed::kEndianMark;
  preamble.version = packed::kVersion;
  preamble.directory_offset = state.position;
  preamble.directory_bytes = directory.size();
  preamble.group_count = state.records.size();
  preamble.directory_checksum = checksum_of(std::span<const char>(directory));
  state.write(directory.data(), directory.size());
  preamble.file_bytes = state.position;
  preamble.checksum = checksum(std::as_bytes(std::span(&preamble, 1)).first(offsetof(packed::Preamble, checksum)));

  if (std::fseek(state.out.get(), 0, SEEK_SET) != 0) state.fail("cannot seek");
  state.write(&preamble, sizeof preamble);
  if (std::fflush(state.out.get()) != 0) state.fail("cannot write");
  if (::fsync(::fileno(state.out.get())) != 0) state.fail("cannot sync");
  if (std::rename(state.aside.c_str(), state.file.c_str()) != 0) state.fail("cannot rename into place");
  state.out.reset();
  sync_folder(state.file);
}

}  // namespace foretime::data
