#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace foretime {

/// Splits a stream of bytes into lines of bounded length. Only the first `limit` bytes of a longer line are returned,
/// so memory is bounded for any input.
class LineSplitter {
 public:
  /// If `carriage_returns` is set, a \r also ends a line (progress bars), and the resulting empty lines are left out.
  LineSplitter(size_t limit, bool carriage_returns) : limit_(limit), carriage_returns_(carriage_returns) {}
  using Take = std::function<void(std::string line, bool cut)>;
  /// Calls `take` with each line that these bytes complete; `cut` says whether its end was dropped.
  void feed(std::string_view bytes, const Take& take);
  /// Returns a last line without a line end.
  void finish(const Take& take);

 private:
  void end_line(const Take& take);

  size_t limit_;
  bool carriage_returns_;
  std::string line_;
  bool cut_ = false, after_return_ = false;
};

/// Returns `text` with invalid UTF-8 replaced by U+FFFD and without control characters other than tab, for terminals
/// and JSON.
std::string printable_utf8(std::string_view text);

/// Returns `text` without leading and trailing spaces, tabs and line ends.
std::string trimmed(std::string_view text);

/// Returns a name from a file for messages: printable ASCII, at most a line long.
std::string printable(std::string_view name);

/// Returns whether `c` is an ASCII digit, whatever the locale.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Returns whether `c` is an ASCII letter, whatever the locale.
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Returns whether `text` has only ASCII letters, digits and characters of `others`.
bool has_only_letters_digits_and(std::string_view others, std::string_view text);

/// Returns `text` with its ASCII letters in lower case.
std::string lower_case(std::string_view text);

/// Returns `text` as in URLs: bytes other than ASCII letters, digits and the characters of `plain` become %XX.
std::string percent_encoded(std::string_view text, std::string_view plain);

/// Returns `text` as one word of a POSIX shell's command, in quotes if it needs them.
std::string shell_word(std::string_view text);

/// Returns whether `c` is a byte of a UTF-8 character after the character's first byte.
constexpr bool continues_character(char c) { return (c & 0xC0) == 0x80; }

/// Returns the optimal string alignment distance (Damerau–Levenshtein without repeated edits): the number of
/// insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
int edit_distance(const std::string& a, const std::string& b);

/// Returns the dotted name most similar to `key`, the first of equals. A correct last part in a wrong section
/// (`learning_rate` for `optimizer.learning_rate`) counts as similar. Returns "" if in every name more than a third of
/// the letters differ.
std::string nearest_name(const std::string& key, const std::vector<std::string>& names);

/// Returns the words of `text`, which are separated by single spaces, for long tables of names in few lines.
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
