#include "data/files/line_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/files.h"

namespace foretime::data {
namespace {

constexpr size_t kInputBytes = size_t{64} << 10, kTextBytes = size_t{256} << 10;
constexpr uint8_t kGzipMagic[] = {0x1f, 0x8b};

}  // namespace

LineSource::LineSource(const std::filesystem::path& file, size_t longest_line)
    : file_(file), longest_line_(longest_line), input_(kInputBytes), text_(kTextBytes + kPadding) {
  if (std::filesystem::is_directory(file)) throw DataError("{}: a folder, expected a file", file.string());
  stream_.reset(std::fopen(file.c_str(), "rb"));
  if (!stream_ && is_storage_failure(errno)) throw_file_error(file, "cannot be read", errno);
  if (!stream_) throw DataError("{}: cannot be read: {}", file.string(), std::strerror(errno));
  read_input();
  gzip_ = input_end_ >= 2 && std::to_integer<uint8_t>(input_[0]) == kGzipMagic[0] &&
          std::to_integer<uint8_t>(input_[1]) == kGzipMagic[1];
}

LineSource::~LineSource() = default;

bool LineSource::read_input() {
  const size_t count = std::fread(input_.data(), 1, input_.size(), stream_.get());
  if (count == 0 && std::ferror(stream_.get())) throw_file_error(file_, "cannot be read", errno);
  input_begin_ = 0;
  input_end_ = count;
  return count > 0;
}

size_t LineSource::read_plain(std::byte* out, size_t room) {
  if (input_begin_ == input_end_ && !read_input()) return 0;
  const size_t count = std::min(room, input_end_ - input_begin_);
  std::memcpy(out, input_.data() + input_begin_, count);
  input_begin_ += count;
  return count;
}

size_t LineSource::read_gzip(std::byte* out, size_t room) {
  while (true) {
    const bool more = input_begin_ != input_end_ || read_input();
    if (!more && !inflater_) return 0;
    if (!inflater_) inflater_ = std::make_unique<Inflater>(Inflater::Format::gzip);
    const auto step =
        inflater_->inflate(std::span(input_).subspan(input_begin_, input_end_ - input_begin_), std::span(out, room));
    const bool stuck = step.consumed == 0 && step.produced == 0 && !step.ended;
    if (stuck && !more) throw DataError("{}: gzip data end after line {}, expected more", file_.string(), line_number_);
    if (step.damaged || stuck) throw DataError("{}: after line {}: gzip data damaged", file_.string(), line_number_);
    input_begin_ += step.consumed;
    if (step.ended) inflater_.reset();
    if (step.produced > 0) return step.produced;
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
