#include "base/lines.h"

#include <utility>

namespace foretime {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Length of the well-formed UTF-8 sequence at `at` (Unicode 15, table 3-7), 0 where there is none.
size_t sequence_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const auto trails = [&](size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return trails(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool second = trails(1, lead == 0xE0 ? 0xA0 : 0x80, lead == 0xED ? 0x9F : 0xBF);
    return second && trails(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool second = trails(1, lead == 0xF0 ? 0x90 : 0x80, lead == 0xF4 ? 0x8F : 0xBF);
    return second && trails(2) && trails(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

void LineSplitter::feed(std::string_view bytes, const Take& take) {
  for (const char c : bytes) {
    const bool after_return = std::exchange(after_return_, carriage_returns_ && c == '\r');
    if (c == '\n' && after_return) continue;  // \r\n is one end of line
    if (c == '\n' || after_return_) {
      if (!(after_return_ && line_.empty())) end_line(take);
    } else if (line_.size() < limit_) {
      line_ += c;
    } else {
      cut_ = true;
    }
  }
}

void LineSplitter::finish(const Take& take) {
  if (!line_.empty()) end_line(take);
}

void LineSplitter::end_line(const Take& take) {
  std::string line;
  line.swap(line_);
  take(std::move(line), std::exchange(cut_, false));
}

std::string printable_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t length = sequence_length(text, i);
    if (length == 0) {
      out += kReplacement;
      ++i;
      continue;
    }
    const auto c = static_cast<unsigned char>(text[i]);
    if (length > 1 || (c >= 0x20 && c != 0x7F) || c == '\t') out += text.substr(i, length);
    i += length;
  }
  return out;
}

}  // namespace foretime
