#include "worker/run/progress.h"

#include <fmt/format.h>
#include <unistd.h>

namespace foretime::worker {
namespace {

constexpr int kBarWidth = 24;

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

double TimeLeft::after(int64_t step, int64_t total_steps) {
  if (first_step_ < 0) {
    first_step_ = step;
    start_ = std::chrono::steady_clock::now();
  }
  if (step <= first_step_) return -1;
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  return elapsed / static_cast<double>(step - first_step_) * static_cast<double>(total_steps - step);
}

ProgressDisplay::ProgressDisplay(std::string label, std::string metric)
    : label_(std::move(label)), metric_(std::move(metric)), terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressDisplay::show(const worker::Progress& now) {
  const double seconds = time_left_.after(now.step, now.total_steps);
  const auto eta = seconds < 0 ? "-" : duration_text(seconds);
  const auto metric = now.metric ? fmt::format("{} {:.4g}  ", metric_, *now.metric) : "";
  // Alone, there is nobody to wait for.
  const auto exposed =
      now.ranks.comm_wait_ms > 0
          ? fmt::format("comm {:.2g} ms ({:.1f} %)  ", now.ranks.comm_exposed_ms, 100 * now.ranks.comm_exposed_share)
          : "";
  const auto facts =
      fmt::format("step {}/{}  loss {:.4g}  {}{:.0f} candidates/s  {}lr {:.2g}  eta {}", now.step, now.total_steps,
                  now.loss, metric, now.candidates_per_second, exposed, now.learning_rate, eta);
  if (!terminal_) {
    fmt::print(stderr, "{}: {}\n", label_, facts);
    return;
  }
  const auto filled = static_cast<int>(kBarWidth * now.step / std::max<int64_t>(1, now.total_steps));
  fmt::print(stderr, "\r\033[K{} [{}{}] {}", label_, std::string(static_cast<size_t>(filled), '#'),
             std::string(static_cast<size_t>(kBarWidth - filled), '.'), facts);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressDisplay::finish() {
  if (drawn_) fmt::print(stderr, "\n");
  drawn_ = false;
}

}  // namespace foretime::worker
