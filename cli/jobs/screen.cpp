#include "cli/jobs/screen.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string_view>

#include <poll.h>
#include <unistd.h>

#include "base/terminal.h"

namespace foretime::cli {
namespace {

constexpr std::string_view kEnter = "\033[?1049h\033[?25l\033[H\033[2J", kLeave = "\033[?25h\033[?1049l";
constexpr int kEndSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
volatile std::sig_atomic_t caught_signal = 0, is_resized = 0;

void say_raw(std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    text.remove_prefix(written > 0 ? static_cast<size_t>(written) : 0);
  }
}

void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;  // no SA_RESTART: a wait ends at once
  sigaction(signal, &action, nullptr);
}

}  // namespace

Screen::Screen() {
  has_keys_ = tcgetattr(STDIN_FILENO, &before_) == 0;
  if (has_keys_) {
    auto raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    raw.c_cc[VSUSP] = _POSIX_VDISABLE;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  for (const int signal : kEndSignals) set_handler(signal, [](int number) { caught_signal = number; });
  set_handler(SIGWINCH, [](int) { is_resized = 1; });
  say_raw(kEnter);
}

Screen::~Screen() {
  say_raw(kLeave);
  if (has_keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  for (const int signal : kEndSignals) set_handler(signal, SIG_DFL);
  set_handler(SIGWINCH, SIG_DFL);
  if (caught_signal != 0) raise(caught_signal);
}

void Screen::show(const std::string& head, const std::string& text) {
  head_ = head;
  lines_.clear();
  for (size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    lines_.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  draw();
}

/// Each line clears the rest of the old one, so that nothing flickers and nothing stays.
void Screen::draw() {
  const auto size = terminal_size(STDOUT_FILENO).value_or(TerminalSize{});
  const size_t room = size.lines - 1, last = lines_.size() > room ? lines_.size() - room : 0;
  top_ = std::min(top_, last);
  auto head = head_;
  if (last > 0)
    head += "  lines " + std::to_string(top_ + 1) + "-" + std::to_string(std::min(lines_.size(), top_ + room)) +
            " of " + std::to_string(lines_.size());
  head += has_keys_ ? last > 0 ? "  (j k space g G scroll, q leaves)" : "  (q leaves)" : "  (Ctrl-C ends)";
  std::string text = "\033[H\033[7m" + cut_to_width(head, size.columns) + "\033[0m\033[K";
  for (size_t i = top_; i < std::min(lines_.size(), top_ + room); ++i)
    text += "\r\n" + cut_to_width(lines_[i], size.columns) + "\033[K";
  say_raw(text + "\033[J");
}

bool Screen::handle_keys() {
  char keys[256];
  const auto count = ::read(STDIN_FILENO, keys, sizeof(keys));
  if (count <= 0) {  // the terminal is gone, or another signal came
    has_keys_ = has_keys_ && count < 0 && errno == EINTR;
    return true;
  }
  const auto page = std::max<size_t>(2, terminal_size(STDOUT_FILENO).value_or(TerminalSize{}).lines) - 2;
  const auto up = [&](size_t lines) { top_ -= std::min(top_, lines); };
  for (std::string_view rest(keys, static_cast<size_t>(count)); !rest.empty();) {
    const auto is = [&](std::string_view key) {
      if (!rest.starts_with(key)) return false;
      rest.remove_prefix(key.size());
      return true;
    };
    if (is("q")) return false;
    if (is("\033[A") || is("\033OA") || is("k")) {
      up(1);
    } else if (is("\033[B") || is("\033OB") || is("j")) {
      ++top_;
    } else if (is("\033[5~") || is("b")) {
      up(page);
    } else if (is("\033[6~") || is(" ")) {
      top_ += page;
    } else if (is("\033[H") || is("g")) {
      top_ = 0;
    } else if (is("\033[F") || is("G")) {
      top_ = lines_.size();
    } else {
      rest.remove_prefix(1);
    }
  }
  draw();
  return true;
}

bool Screen::wait(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  while (caught_signal == 0) {
    if (is_resized != 0) {
      is_resized = 0;
      draw();
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return true;
    pollfd input{.fd = has_keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
    if (::poll(&input, 1, std::min<int64_t>(left, 1000)) > 0 && !handle_keys()) return false;
  }
  return false;
}

}  // namespace foretime::cli
