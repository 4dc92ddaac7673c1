#include "data/files/line_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"

namespace foretime::data {
namespace {

constexpr size_t kReadAhead = 8;  // by inflaters
constexpr size_t kInputBytes = size_t{64} << 10, kTextBytes = size_t{256} << 10;
constexpr uint8_t kMagic[] = {0x1f, 0x8b};

}  // namespace

LineSource::LineSource(const std::filesystem::path& file, size_t longest_line)
    : file_(file), longest_line_(longest_line), input_(kInputBytes), text_(kTextBytes + kPadding) {
  if (std::filesystem::is_directory(file)) throw DataError(fmt::format("{}: a folder, expected a file", file.string()));
  stream_.reset(std::fopen(file.c_str(), "rb"));
  if (!stream_) throw DataError(fmt::format("{}: cannot be read: {}", file.string(), std::strerror(errno)));
  read_input();
  gzip_ = input_end_ >= 2 && std::to_integer<uint8_t>(input_[0]) == kMagic[0] &&
          std::to_integer<uint8_t>(input_[1]) == kMagic[1];
}

LineSource::~LineSource() = default;

bool LineSource::read_input() {
  // The bytes before are kept, for an inflater that has read too far.
  const size_t kept = std::min(kReadAhead, input_begin_);
  std::memmove(input_.data(), input_.data() + input_begin_ - kept, kept);
  const size_t count = std::fread(input_.data() + kept, 1, input_.size() - kept, stream_.get());
  if (count == 0 && std::ferror(stream_.get()))
    throw DataError(fmt::format("{}: cannot be read: {}", file_.string(), std::strerror(errno)));
  input_begin_ = kept;
  input_end_ = kept + count;
  return count > 0;
}

size_t LineSource::read_plain(std::byte* out, size_t room) {
  if (input_begin_ == input_end_ && !read_input()) return 0;
  const size_t count = std::min(room, input_end_ - input_begin_);
  std::memcpy(out, input_.data() + input_begin_, count);
  input_begin_ += count;
  return count;
}

uint8_t LineSource::input_byte() {
  if (input_begin_ == input_end_ && !read_input())
    throw DataError(fmt::format("{}: gzip data end after line {}, expected more", file_.string(), line_number_));
  return std::to_integer<uint8_t>(input_[input_begin_++]);
}

void LineSource::read_member_header() {
  constexpr uint8_t kDeflate = 8, kHasCrc = 2, kHasExtra = 4, kHasName = 8, kHasComment = 16, kReserved = 0xe0;
  std::array<uint8_t, 10> header{};
  for (auto& byte : header) byte = input_byte();
  const uint8_t flags = header[3];
  if (header[0] != kMagic[0] || header[1] != kMagic[1] || header[2] != kDeflate || (flags & kReserved) != 0)
    throw DataError(
        fmt::format("{}: after line {}: expected the header of a gzip member", file_.string(), line_number_));
  if (flags & kHasExtra) {
    const unsigned low = input_byte(), high = input_byte();
    for (unsigned i = 0; i < low + 256 * high; ++i) input_byte();
  }
  if (flags & kHasName) {
    while (input_byte() != 0) continue;
  }
  if (flags & kHasComment) {
    while (input_byte() != 0) continue;
  }
  if (flags & kHasCrc) {
    input_byte();
    input_byte();
  }
  inflater_ = std::make_unique<Inflater>();
  in_member_ = true;
  crc_ = size_ = 0;
}

void LineSource::read_member_trailer() {
  const auto word = [this] {
    uint32_t value = 0;
    for (int shift = 0; shift < 32; shift += 8) value |= static_cast<uint32_t>(input_byte()) << shift;
    return value;
  };
  const uint32_t crc = word(), size = word();
  if (crc != crc_ || size != size_)
    throw DataError(fmt::format("{}: after line {}: gzip checksum or size wrong", file_.string(), line_number_));
  in_member_ = false;
}

size_t LineSource::read_gzip(std::byte* out, size_t room) {
  while (true) {
    if (input_begin_ == input_end_ && !read_input()) {
      if (in_member_) input_byte();  // says that data are missing
      return 0;
    }
    if (!in_member_) read_member_header();
    const auto step =
        inflater_->inflate(std::span(input_).subspan(input_begin_, input_end_ - input_begin_), std::span(out, room));
    if (step.damaged)
      throw DataError(fmt::format("{}: after line {}: gzip data damaged", file_.string(), line_number_));
    input_begin_ += step.consumed;
    crc_ = crc32_of(std::span(out, step.produced), crc_);
    size_ += static_cast<uint32_t>(step.produced);
    if (step.ended) {
      input_begin_ -= std::min(step.unread, input_begin_);
      read_member_trailer();
    }
    if (step.produced > 0) return step.produced;
    if (step.consumed == 0 && !step.ended && input_begin_ < input_end_)
      throw DataError(fmt::format("{}: after line {}: gzip data damaged", file_.string(), line_number_));
  }
}

bool LineSource::fill() {
  if (ended_) return false;
  if (begin_ > 0) {
    std::memmove(text_.data(), text_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    searched_ -= begin_;
    begin_ = 0;
  }
  if (end_ + kPadding == text_.size()) text_.resize(std::min(2 * end_, longest_line_ + kTextBytes) + kPadding);
  const size_t room = text_.size() - kPadding - end_;
  const size_t count = gzip_ ? read_gzip(text_.data() + end_, room) : read_plain(text_.data() + end_, room);
  end_ += count;
  ended_ = count == 0;
  return count > 0;
}

std::optional<LineSource::Line> LineSource::next() {
  bool too_long = false;
  while (true) {
    const auto* start = reinterpret_cast<const char*>(text_.data());
    const auto* found = static_cast<const char*>(std::memchr(start + searched_, '\n', end_ - searched_));
    const bool whole = found != nullptr;
    size_t stop = whole ? static_cast<size_t>(found - start) : end_;
    searched_ = stop;
    if (!whole && stop - begin_ > longest_line_) {
      // Its end is looked for without keeping what lies between.
      too_long = true;
      searched_ = end_ = begin_ + longest_line_;
    }
    if (!whole) {
      if (fill()) continue;
      if (begin_ == end_) return std::nullopt;
      stop = end_;  // filling moves the text
    }
    const size_t length = stop - begin_;
    ++line_number_;
    Line line{{reinterpret_cast<const char*>(text_.data()) + begin_, length}, too_long || length > longest_line_};
    if (line.text.ends_with('\r')) line.text.remove_suffix(1);
    begin_ = searched_ = whole ? stop + 1 : stop;
    return line;
  }
}

}  // namespace foretime::data
