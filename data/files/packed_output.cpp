#include "data/files/packed_output.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <unistd.h>

namespace foretime::data::packed {
namespace {

constexpr uint64_t kCopyPiece = uint64_t{1} << 20;

}  // namespace

Output::Output(std::filesystem::path file) : file_(std::move(file)) {
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
  auto in_at = static_cast<off_t>(offset), out_at = static_cast<off_t>(position_);
  position_ += bytes;
  while (bytes > 0) {
    const ssize_t copied = ::copy_file_range(from.descriptor(), &in_at, ::fileno(file_.stream()), &out_at, bytes, 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) break;  // not between these file systems: what is left goes through memory
    bytes -= static_cast<uint64_t>(copied);
  }
  if (::fseeko(file_.stream(), out_at, SEEK_SET) != 0) file_.fail("seek");
  std::vector<char> piece(std::min(bytes, kCopyPiece));
  for (; bytes > 0; bytes -= std::min<uint64_t>(bytes, piece.size())) {
    const uint64_t now = std::min<uint64_t>(bytes, piece.size());
    from.read(piece.data(), now, static_cast<uint64_t>(in_at), "sections");
    file_.write({piece.data(), now});
    in_at += static_cast<off_t>(now);
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
  for (SectionRecord& section : record.sections) {
    if (section.bytes != 0) section.offset += shift;
  }
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
  std::copy(names_.begin(), names_.end(), directory.begin() + static_cast<std::ptrdiff_t>(records_bytes));

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

  if (::fseeko(file_.stream(), 0, SEEK_SET) != 0) file_.fail("seek");
  write(&preamble, sizeof preamble);
  file_.commit();
}

}  // namespace foretime::data::packed
