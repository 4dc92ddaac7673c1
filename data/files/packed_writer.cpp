#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <unordered_set>
#include <utility>

#include <unistd.h>

#include "base/error.h"
#include "data/files/packed.h"
#include "data/files/packed_file.h"
#include "data/graphs/validate.h"

namespace foretime::data::packed {
namespace {

constexpr uint64_t kCopyPiece = uint64_t{1} << 20;

}  // namespace

Output::Output(std::filesystem::path file) : file_(std::move(file), AtomicFile::Leftovers::remove) {
  const Preamble unfinished{};
  write(&unfinished, sizeof unfinished);
}

void Output::write(const void* bytes, size_t count) {
  file_.write({static_cast<const char*>(bytes), count});
  position_ += count;
}

void Output::pad() {
  constexpr std::array<char, kAlignment> kZeros{};
  write(kZeros.data(), (kAlignment - position_ % kAlignment) % kAlignment);
}

void Output::begin_section() {
  section_ = {};
  checksum_ = Checksum();
}

void Output::append(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (section_.bytes == 0) {
    pad();
    section_.offset = position_;
  }
  checksum_.add(bytes);
  write(bytes.data(), bytes.size());
  section_.bytes += bytes.size();
}

SectionRecord Output::end_section() {
  if (section_.bytes != 0) section_.checksum = checksum_.value();
  return section_;
}

void Output::add_record(GroupRecord record, const std::string& name) {
  record.name_offset = names_.size();  // completed by commit(), which knows where the names begin
  record.name_bytes = name.size();
  record.name_checksum = checksum_of(std::span(name));
  records_.push_back(record);
  names_ += name;
}

void Output::copy_bytes(const File& from, uint64_t offset, uint64_t bytes) {
  file_.flush();
  off_t in_at = offset, out_at = position_;
  position_ += bytes;
  while (bytes > 0) {
    const ssize_t copied = ::copy_file_range(from.descriptor(), &in_at, file_.descriptor(), &out_at, bytes, 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) break;  // not between these file systems: what is left goes through memory
    bytes -= copied;
  }
  file_.seek(out_at);
  std::vector<char> piece(std::min(bytes, kCopyPiece));
  for (; bytes > 0; bytes -= std::min<uint64_t>(bytes, piece.size())) {
    const uint64_t now = std::min<uint64_t>(bytes, piece.size());
    from.read(piece.data(), now, in_at, "sections");
    file_.write({piece.data(), now});
    in_at += now;
  }
}

void Output::copy_group(const CollectionFile& from, uint64_t member) {
  std::string name;
  GroupRecord record = from.record(member, name);
  uint64_t begin = std::numeric_limits<uint64_t>::max(), end = 0;
  for (const SectionRecord& section : record.sections) {
    if (section.bytes == 0) continue;
    begin = std::min(begin, section.offset);
    end = std::max(end, section.offset + section.bytes);
  }
  pad();
  const uint64_t shift = position_ - begin;  // modulo 2^64; both are multiples of 64, so places stay aligned
  for (SectionRecord& section : record.sections)
    if (section.bytes != 0) section.offset += shift;
  if (end > 0) copy_bytes(from.file(), begin, end - begin);
  record.checksum = 0;  // commit() computes it
  add_record(record, name);
}

void Output::commit() {
  const uint64_t records_bytes = records_.size() * sizeof(GroupRecord);
  std::vector<char> directory(records_bytes + names_.size());
  for (GroupRecord& record : records_) {
    record.name_offset += records_bytes;
    record.checksum = own_checksum(record);
  }
  std::memcpy(directory.data(), records_.data(), records_bytes);
  std::ranges::copy(names_, directory.begin() + records_bytes);

  pad();
  Preamble preamble{};
  preamble.magic = kMagic;
  preamble.endian_mark = kEndianMark;
  preamble.version = kVersion;
  preamble.directory_offset = position_;
  preamble.directory_bytes = directory.size();
  preamble.group_count = records_.size();
  preamble.directory_checksum = checksum_of(std::span<const char>(directory));
  write(directory.data(), directory.size());
  preamble.file_bytes = position_;
  preamble.checksum = own_checksum(preamble);

  file_.seek(0);
  write(&preamble, sizeof preamble);
  file_.commit();
}
}  // namespace foretime::data::packed

namespace foretime::data {
namespace {

using packed::GroupRecord;
using packed::Output;
using packed::SectionRecord;

std::vector<char> join_ids(const std::vector<std::string>& ids) {
  std::vector<char> bytes;
  for (const std::string& id : ids) {
    const uint32_t length = id.size();
    const char* at = reinterpret_cast<const char*>(&length);
    bytes.insert(bytes.end(), at, at + sizeof length);
    bytes.insert(bytes.end(), id.begin(), id.end());
  }
  return bytes;
}

std::vector<double> join_statistics(const ColumnStatistics& features, const ColumnStatistics& log_features,
                                    const ColumnStatistics& tiles, const ColumnStatistics& log_tiles) {
  std::vector<double> values;
  for (const auto& [first, second] : {std::pair(&features, &tiles), std::pair(&log_features, &log_tiles)}) {
    for (const auto field :
         {&ColumnStatistics::sums, &ColumnStatistics::squares, &ColumnStatistics::minima, &ColumnStatistics::maxima}) {
      for (const auto* part : {&(first->*field), &(second->*field)})
        values.insert(values.end(), part->begin(), part->end());
    }
  }
  return values;
}

/// A fingerprint of names, shapes and contents: the record without the places of its sections, and without the note.
uint64_t fingerprint_of(GroupRecord record, const std::string& name) {
  record.name_checksum = checksum_of(std::span(name));
  record.sections[packed::kNote] = {};
  for (auto& section : record.sections) section.offset = 0;
  return checksum_of(std::span(&record, 1));
}

/// Takes a group's two large arrays, writes them, and keeps what the summary needs of them.
class StreamedSections {
 public:
  StreamedSections(Output& out, GroupRecord& record) : out_(out), record_(record) { out_.begin_section(); }

  LayoutSink sink() {
    return {
        [this](std::span<const float> rows, int64_t columns) { take_features(rows, columns); },
        [this](std::span<const uint8_t> candidates, int64_t configurable) { take_codes(candidates, configurable); }};
  }
  /// Call after the last piece.
  void finish() {
    end_features();
    record_.sections[packed::kLayoutCodes] = out_.end_section();
  }
  ColumnStatistics statistics(bool log) {
    auto& accumulator = log ? logarithms_ : plain_;
    return std::move(accumulator).finish();
  }
  std::vector<uint64_t>& configurations() { return configurations_; }

 private:
  void take_features(std::span<const float> rows, int64_t columns) {
    if (!seen_features_) {
      plain_ = ColumnAccumulator(columns, false);
      logarithms_ = ColumnAccumulator(columns, true);
      seen_features_ = true;
    }
    plain_.add(rows);
    logarithms_.add(rows);
    out_.append(std::as_bytes(rows));
  }
  void take_codes(std::span<const uint8_t> candidates, int64_t configurable) {
    end_features();
    const size_t width = configurable;
    for (auto rest = candidates; width > 0 && !rest.empty(); rest = rest.subspan(width))
      configurations_.push_back(checksum_of(rest.first(width)));
    out_.append(std::as_bytes(candidates));
  }
  void end_features() {
    if (std::exchange(features_ended_, true)) return;
    record_.sections[packed::kNodeFeatures] = out_.end_section();
    out_.begin_section();
  }

  Output& out_;
  GroupRecord& record_;
  ColumnAccumulator plain_{0, false}, logarithms_{0, true};
  std::vector<uint64_t> configurations_;
  bool seen_features_ = false, features_ended_ = false;
};

}  // namespace

struct PackedWriter::State {
  State(std::filesystem::path file, std::string text) : out(std::move(file)), note(std::move(text)) {}

  Output out;
  const std::string note;
  std::unordered_set<std::string> seen;
  bool broken = false;

  std::string origin(const std::string& name) const { return out.file().string() + ": " + name; }
  void check_kind(CandidateKind kind, const std::string& name) const {
    if (out.records().empty() || out.records()[0].kind == static_cast<uint32_t>(kind)) return;
    throw DataError("{}: a group of kind {}, expected {}, the kind of the groups before it", origin(name),
                    kind_name(kind), kind_name(static_cast<CandidateKind>(out.records()[0].kind)));
  }
  /// The one way in which groups are written, so that a streamed one has the bytes of one in memory.
  void write(const std::string& name, const std::function<Group(const LayoutSink&)>& read, uint64_t fingerprint) {
    using namespace packed;
    if (broken) throw DataError("{}: cannot be added after a group that failed", origin(name));
    if (!seen.insert(name).second)
      throw DataError("{}: a second group of this name, expected different names in a collection", origin(name));
    broken = true;  // reset when everything is written
    GroupRecord record{};
    StreamedSections streamed(out, record);
    const Group group = read(streamed.sink());
    streamed.finish();
    check_kind(group.kind, name);
    validate_all_but_streamed(group, origin(name));

    record.kind = static_cast<uint32_t>(group.kind);
    record.unit = static_cast<uint32_t>(group.unit);
    record.collection = static_cast<uint64_t>(group.collection);
    record.sizes = sizes_of(group);
    const auto expect_bytes = [&](Section section, const char* field, int64_t count) {
      if (std::cmp_not_equal(record.sections[section].bytes, count))
        throw DataError("{}: {}: {} bytes were streamed, expected {}", origin(name), field,
                        record.sections[section].bytes, count);
    };
    expect_bytes(kNodeFeatures, "node_features",
                 record.sizes.nodes * record.sizes.feature_count * int64_t{sizeof(float)});
    expect_bytes(kLayoutCodes, "layout codes", record.sizes.candidates * record.sizes.configurable);
    const std::vector<char> ids = join_ids(group.candidate_ids);
    const auto write = [&](Section section, const char*, const auto& array, int64_t count, int64_t) {
      if (count != 0) record.sections[section] = out.section(array.span());
    };
    visit_sections(group, record.sizes, write);
    record.sections[kCandidateIds] = out.section(std::span<const char>(ids));
    write_summary(group, streamed, record);
    record.fingerprint = fingerprint;
    record.sections[kNote] = out.section(std::span<const char>(note));
    if (fingerprint == 0) record.fingerprint = fingerprint_of(record, name);
    out.add_record(record, name);
    broken = false;
  }
  void write_summary(const Group& group, StreamedSections& streamed, GroupRecord& record) {
    auto& configurations = streamed.configurations();
    if (group.layout.configurable() == 0) configurations = configuration_hashes(group);
    ColumnStatistics tiles, log_tiles;
    if (group.kind == CandidateKind::tile) {
      tiles = column_statistics(group.tile_features.span(), kTileFeatures, false);
      log_tiles = column_statistics(group.tile_features.span(), kTileFeatures, true);
    }
    const auto statistics = join_statistics(streamed.statistics(false), streamed.statistics(true), tiles, log_tiles);
    record.sections[packed::kRuntimes] = out.section(group.runtimes.span());
    record.sections[packed::kFlops] = out.section(group.flops.span());
    record.sections[packed::kConfigurations] = out.section(std::span<const uint64_t>(configurations));
    record.sections[packed::kStatistics] = out.section(std::span<const double>(statistics));
  }
};

PackedWriter::PackedWriter(std::filesystem::path file, std::string note)
    : state_(std::make_unique<State>(std::move(file), std::move(note))) {}

PackedWriter::~PackedWriter() = default;

void PackedWriter::add(const Group& group, uint64_t fingerprint) {
  validate_group(group, state_->origin(group.name));
  state_->check_kind(group.kind, group.name);
  const auto read = [&](const LayoutSink& sink) {
    sink.node_features(group.graphs.node_features.span(), group.graphs.feature_count);
    sink.codes(group.layout.codes.span(), group.layout.configurable());
    return group;
  };
  state_->write(group.name, read, fingerprint);
}

void PackedWriter::add_streamed(const std::string& name, const std::function<Group(const LayoutSink&)>& read,
                                uint64_t fingerprint) {
  state_->write(name, read, fingerprint);
}

void PackedWriter::finish() {
  if (state_->out.records().empty())
    throw DataError(state_->out.file().string() + ": no groups, expected at least one");
  if (state_->broken) throw DataError(state_->out.file().string() + ": cannot be completed: a group failed");
  state_->out.commit();
}

}  // namespace foretime::data
