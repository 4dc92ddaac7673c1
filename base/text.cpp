#include "base/text.h"

#include <utility>

#include <fmt/format.h>

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

bool has_only_letters_digits_and(std::string_view others, std::string_view text) {
  return std::ranges::all_of(
      text, [&](char c) { return is_letter(c) || is_digit(c) || others.find(c) != std::string_view::npos; });
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
  return lower;
}

std::string percent_encoded(std::string_view text, std::string_view plain) {
  std::string encoded;
  for (const char c : text) {
    if (is_letter(c) || is_digit(c) || plain.find(c) != std::string_view::npos) encoded += c;
    else encoded += fmt::format("%{:02X}", c & 0xFF);
  }
  return encoded;
}

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

std::string printable(std::string_view name) {
  constexpr size_t kPrintedBytes = 80;
  std::string text(name.substr(0, kPrintedBytes));
  for (char& c : text)
    if (c <= ' ' || c > '~') c = '?';
  if (name.size() > kPrintedBytes) text += "…";
  return text.empty() ? "without a name" : text;
}

int edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::string nearest_name(const std::string& key, const std::vector<std::string>& names) {
  const auto last_part = [](const std::string& name) { return name.substr(name.rfind('.') + 1); };
  std::string best;
  int best_distance = static_cast<int>(std::max<size_t>(2, key.size() / 3)) + 1;
  for (const std::string& name : names) {
    int distance = edit_distance(key, name);
    // One more than the distance of the last parts alone, so that a slip within the same section comes first.
    const std::string part = last_part(key);
    const int part_distance = edit_distance(part, last_part(name));
    if (part_distance * 3 <= std::ssize(part)) distance = std::min(distance, part_distance + 1);
    if (distance < best_distance) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  if (what.empty()) return;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

std::string shell_word(std::string_view text) {
  if (!text.empty() && has_only_letters_digits_and("_./:=@%+,-", text)) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace foretime
