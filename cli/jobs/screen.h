#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <termios.h>

namespace foretime::cli {

/// Uses the alternate screen of the terminal for a text that is shown repeatedly: its first line is fixed, the rest is
/// scrolled by keys. The former content of the terminal is restored at the end, also after a signal. Only one object
/// may exist.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// Shows a text below the line `head`.
  void show(const std::string& head, const std::string& text);
  /// Handles keys and changes of the window's size for `seconds`. Returns false if the user wants to leave.
  bool wait(double seconds);

 private:
  void draw();
  bool handle_keys();

  std::string head_;
  std::vector<std::string> lines_;
  size_t top_ = 0;         // index of the first visible line
  bool has_keys_ = false;  // standard input is a terminal
  termios before_{};
};

}  // namespace foretime::cli
