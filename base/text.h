#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace foretime {

/// Cuts a stream of bytes into lines of bounded length. Of a longer line the first `limit` bytes are given, once its
/// end is there, and the rest is dropped: memory stays bounded whatever arrives.
class LineSplitter {
 public:
  /// With `carriage_returns` a \r ends a line too (progress bars), and empty lines that come of it are left out.
  LineSplitter(size_t limit, bool carriage_returns) : limit_(limit), carriage_returns_(carriage_returns) {}
  using Take = std::function<void(std::string line, bool cut)>;
  void feed(std::string_view bytes, const Take& take);
  /// What is left without an end of line.
  void finish(const Take& take);

 private:
  void end_line(const Take& take);

  size_t limit_;
  bool carriage_returns_;
  std::string line_;
  bool cut_ = false, after_return_ = false;
};

/// `text` with everything that is not UTF-8 replaced by U+FFFD, and control characters other than tab left out: for
/// terminals and JSON.
std::string printable_utf8(std::string_view text);

/// Without the spaces, tabs and line ends around it.
std::string trimmed(std::string_view text);

/// A name from a file for messages: printable ASCII, not longer than a line.
std::string printable(std::string_view name);

/// Optimal string alignment distance (Damerau–Levenshtein without repeated edits): insertions, deletions, substitutions
/// and swaps of neighbours that turn `a` into `b`.
int edit_distance(const std::string& a, const std::string& b);

/// The dotted name most like `key`, the first of equals. A right last part in the wrong section (`learning_rate` for
/// `optimizer.learning_rate`) is near, too. Empty where `names` is empty or nothing is alike: more than a third of the
/// letters differ.
std::string nearest_name(const std::string& key, const std::vector<std::string>& names);

/// Columns of text, padded to their display width, with a rule under the first row.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

/// The words of `text`, which single spaces part: long tables of names in few lines.
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
