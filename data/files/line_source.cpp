#include "data/files/line_source.h"

#include <algorithm>
#include <cstring>

namespace foretime::data {
namespace {

constexpr size_t kTextBytes = size_t{256} << 10;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

LineSource::LineSource(const std::filesystem::path& file, size_t longest_line)
    : source_(file), longest_line_(longest_line), text_(kTextBytes + kPadding) {}

bool LineSource::fill() {
  if (ended_) return false;
  if (begin_ > 0) {
    std::memmove(text_.data(), text_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    searched_ -= begin_;
    begin_ = 0;
  }
  if (end_ + kPadding == text_.size()) text_.resize(std::min(2 * end_, longest_line_ + kTextBytes) + kPadding);
  const size_t count = source_.read(text_.data() + end_, text_.size() - kPadding - end_);
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
    size_t stop = whole ? (found - start) : end_;
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
    if (line_number_ == 1 && line.text.starts_with(kByteOrderMark)) line.text.remove_prefix(kByteOrderMark.size());
    if (line.text.ends_with('\r')) line.text.remove_suffix(1);
    begin_ = searched_ = whole ? stop + 1 : stop;
    return line;
  }
}

}  // namespace foretime::data
