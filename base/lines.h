#pragma once

#include <functional>
#include <string>
#include <string_view>

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

}  // namespace foretime
