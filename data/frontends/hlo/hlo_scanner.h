#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"

namespace foretime::data {

/// Reads the words, brackets and quoted texts of HLO text one after another. Errors are DataErrors with the line.
class HloScanner {
 public:
  /// Starts at the beginning of `text`. `name` is the file's name in messages; both must outlive the scanner.
  HloScanner(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  /// Throws DataError `name: line N: what` with the line of the current position.
  [[noreturn]] void fail(const std::string& what) const {
    const auto line = 1 + std::ranges::count(text_.substr(0, std::min(at_, text_.size())), '\n');
    throw DataError("{}: line {}: {}", name_, line, what);
  }
  /// Returns up to 40 bytes of the rest of the line in quotes, for messages; "the end" if the rest is empty.
  std::string next_text() const {
    const auto rest = text_.substr(at_, text_.substr(at_).find('\n')).substr(0, 40);
    return rest.empty() ? "the end" : "'" + printable_utf8(rest) + "'";
  }

  /// Skips blanks and comments, and ends of lines unless `in_line`. Throws DataError for a comment that does not end.
  void skip_blanks(bool in_line = false) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && !in_line)) {
        ++at_;
      } else if (text_.substr(at_, 2) == "/*") {
        const auto end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) fail("found a comment that does not end");
        at_ = end + 2;
      } else if (text_.substr(at_, 2) == "//") {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return;
      }
    }
  }
  /// Skips blanks, comments and ends of lines; returns whether nothing else is left.
  bool at_end() {
    skip_blanks();
    return at_ == text_.size();
  }
  /// Skips blanks in the line and returns the next character; '\n' at the end of the line or of the text.
  char peek() {
    skip_blanks(true);
    return at_ < text_.size() ? text_[at_] : '\n';
  }
  /// Takes `c` if it is the next character of the line after blanks; returns whether it was.
  bool takes(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  /// Takes a } if it is next after blanks and ends of lines; returns whether. Throws DataError at the end of the text.
  bool takes_closing() {
    if (at_end()) fail("found the end, expected } after the last instruction");
    if (text_[at_] != '}') return false;
    ++at_;
    return true;
  }
  /// Returns whether the next character, without any blanks before it, is `c`.
  bool is_next(char c) const { return at_ < text_.size() && text_[at_] == c; }
  /// Takes `word` if it is the next whole word or bracket, after blanks and ends of lines; returns whether it was.
  bool takes(std::string_view word) {
    skip_blanks();
    const auto end = at_ + word.size();
    if (text_.substr(at_, word.size()) != word || (end < text_.size() && is_word(text_[end]))) return false;
    at_ = end;
    return true;
  }
  void expect(char c) {
    if (!takes(c)) fail(fmt::format("found {}, expected '{}'", next_text(), c));
  }
  /// Takes a word of letters, digits, _, - and ., with an optional % before it that is not returned; "": there is none.
  std::string_view take_word() {
    peek();
    if (at_ < text_.size() && text_[at_] == '%') ++at_;
    const auto begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  /// Takes a word like take_word(). Throws DataError that `what` was expected if there is none.
  std::string_view expect_word(const char* what) {
    const auto word = take_word();
    if (word.empty()) fail(fmt::format("found {}, expected {}", next_text(), what));
    return word;
  }
  /// Takes the text up to a character of `ends` outside of brackets and quotes, which remains, or up to the end.
  /// Throws DataError for brackets or quotes without their counterparts.
  std::string_view take_until(std::string_view ends) {
    const auto begin = at_;
    std::string open;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (open.empty() && ends.find(c) != std::string_view::npos) break;
      if (c == '"') {
        skip_quoted();
      } else if (c == '(' || c == '[' || c == '{') {
        open += c == '(' ? ')' : c == '[' ? ']' : '}';
      } else if (c == ')' || c == ']' || c == '}') {
        if (open.empty() || open.back() != c)
          fail(
              fmt::format("found {}, expected {}", c, open.empty() ? ends.substr(0, 1) : open.substr(open.size() - 1)));
        open.pop_back();
      }
    }
    if (!open.empty()) fail(fmt::format("found the end, expected {}", open.back()));
    return text_.substr(begin, at_ - begin);
  }
  /// Takes the (, [ or { at the current position, up to its closing bracket, and returns the text between them.
  std::string_view take_group() {
    const auto begin = at_;
    const char close = text_[at_] == '(' ? ')' : text_[at_] == '[' ? ']' : '}';
    ++at_;
    const auto contents = take_until({&close, 1});
    if (at_ >= text_.size()) {
      at_ = begin;
      fail(fmt::format("found {}, expected its closing bracket", next_text()));
    }
    ++at_;
    return contents;
  }
  /// Skips the rest of the line.
  void skip_line() { at_ = std::min(text_.find('\n', at_), text_.size()); }
  size_t position() const { return at_; }          // bytes from the beginning of the text
  void go_to(size_t position) { at_ = position; }  // sets the current position
  /// Splits text at a separator outside of brackets and quotes, and strips blanks. An empty text has no parts.
  std::vector<std::string_view> parts_of(std::string_view text, char separator) const {
    std::vector<std::string_view> parts;
    HloScanner scanner(text, name_);
    while (!text.empty()) {
      auto part = scanner.take_until({&separator, 1});
      scanner.go_to(scanner.position() + 1);
      const auto first = part.find_first_not_of(" \t\r\n"), last = part.find_last_not_of(" \t\r\n");
      parts.push_back(first == std::string_view::npos ? "" : part.substr(first, last - first + 1));
      if (scanner.position() > text.size()) break;
    }
    return parts;
  }

  /// Returns a text without the brackets `open` and `close` around it; the text itself if it lacks them.
  static std::string_view inside(std::string_view text, char open, char close) {
    return text.size() >= 2 && text.front() == open && text.back() == close ? text.substr(1, text.size() - 2) : text;
  }

 private:
  static bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.'; }
  /// Moves from an opening quote to its closing quote.
  void skip_quoted() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_)
      if (text_[at_] == '\\') ++at_;
    if (at_ >= text_.size()) fail("found a quoted text that does not end");
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;  // current position in text_
};

}  // namespace foretime::data
