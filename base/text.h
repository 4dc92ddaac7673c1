#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace foretime {

/// Splits a stream of bytes into lines. Only the first `limit` bytes of a longer line are kept, so memory is bounded
/// for any input. Line ends are not part of the lines.
class LineSplitter {
 public:
  /// `limit` is in bytes. If `carriage_returns` is set, \r and \r\n also end a line (progress bars), and a \r after an
  /// empty line gives no line. Otherwise only \n ends a line, and a \r before it stays in the line.
  LineSplitter(size_t limit, bool carriage_returns) : limit_(limit), carriage_returns_(carriage_returns) {}
  using Take = std::function<void(std::string line, bool cut)>;
  /// Calls `take` with each line that these bytes complete; `cut` says whether the line was longer than `limit`.
  void feed(std::string_view bytes, const Take& take);
  /// Ends the stream: calls `take` with the last line if it has no line end and is not empty.
  void finish(const Take& take);

 private:
  void end_line(const Take& take);  // passes line_ on, also if it is empty, and begins the next line

  size_t limit_;
  bool carriage_returns_;
  std::string line_;                         // the line gathered so far
  bool cut_ = false, after_return_ = false;  // line_ lacks bytes beyond limit_; the last byte was a \r that ends lines
};

/// Returns `text` with invalid UTF-8 replaced by U+FFFD and without control characters other than tab, for terminals
/// and JSON.
std::string printable_utf8(std::string_view text);

/// Returns `text` without leading and trailing spaces, tabs and line ends.
std::string trimmed(std::string_view text);

/// Returns a name from a file for messages: its first 80 bytes and … if more follow, with ? for spaces and all bytes
/// that are not printable ASCII. Returns "without a name" for an empty name.
std::string printable(std::string_view name);

/// Returns whether `c` is an ASCII digit, whatever the locale.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Returns whether `c` is an ASCII letter, whatever the locale.
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Returns whether `text` has only ASCII letters, digits and characters of `others`.
bool has_only_letters_digits_and(std::string_view others, std::string_view text);

/// Returns `text` with its ASCII letters in lower case.
std::string lower_case(std::string_view text);

/// Returns `text` as in URLs: each byte other than ASCII letters, digits and the characters of `plain` becomes %XX.
std::string percent_encoded(std::string_view text, std::string_view plain);

/// Replaces each `what` in `text`; nothing if `what` is empty.
void replace_all(std::string& text, std::string_view what, std::string_view with);

/// Returns `text` as one word of a POSIX shell's command, in quotes if it needs them.
std::string shell_word(std::string_view text);

/// Returns whether `c` is a byte of a UTF-8 character after the character's first byte.
constexpr bool continues_character(char c) { return (c & 0xC0) == 0x80; }

/// Returns the optimal string alignment distance (Damerau–Levenshtein without repeated edits): the least number of
/// insertions, deletions and substitutions of bytes and swaps of neighbours that turn `a` into `b`.
int edit_distance(const std::string& a, const std::string& b);

/// Returns the dotted name with the smallest edit_distance to `key`, the first of equals. A similar last part in
/// another section (`learning_rate` for `optimizer.learning_rate`) counts as near. Returns "" if every distance is
/// above a third of the length of `key`, or above 2 for keys shorter than nine bytes.
std::string nearest_name(const std::string& key, const std::vector<std::string>& names);

/// Returns the first N words of `text`, which are separated by single spaces; missing words are empty.
template <size_t N>
constexpr std::array<std::string_view, N> split_words(std::string_view text) {
  std::array<std::string_view, N> words;
  for (auto& word : words) {
    word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return words;
}

}  // namespace foretime
