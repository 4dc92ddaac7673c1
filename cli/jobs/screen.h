#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <termios.h>

namespace foretime::cli {

/// The alternate screen of the terminal on standard output, for a text that is shown again and again: its first line
/// stays, the rest is scrolled by keys. What the terminal showed before is there again afterwards, also where a signal
/// ends the program. One at a time.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// `head` is one line.
  void show(const std::string& head, const std::string& text);
  /// Scrolls as keys say, and redraws where the window's size changes, for some seconds. False: the user wants to
  /// leave.
  bool wait(double seconds);

 private:
  void draw();
  bool take_keys();

  std::string head_;
  std::vector<std::string> lines_;
  size_t top_ = 0;         // the first line that is shown
  bool has_keys_ = false;  // standard input is a terminal
  termios before_{};
};

}  // namespace foretime::cli
