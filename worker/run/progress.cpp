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

ProgressDisplay::ProgressDisplay(std::string label, std::string metric)
    : label_(std::move(label)), metric_(std::move(metric)), terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressDisplay::on_step(const StepEvent& now) {
  if (!now.report) return;
  const auto& report = *now.report;
  const double seconds = now.eta_seconds();
  const auto eta = seconds < 0 ? "-" : duration_text(seconds);
  const auto metric = report.metric ? fmt::format("{} {:.4g}  ", metric_, *report.metric) : "";
  // Alone, there is nobody to wait for.
  const auto& ranks = report.ranks;
  const auto exposed = ranks.comm_wait_ms > 0 ? fmt::format("comm {:.2g} ms ({:.1f} %)  ", ranks.comm_exposed_ms,
                                                            100 * ranks.comm_exposed_share)
                                              : "";
  const auto facts =
      fmt::format("step {}/{}  loss {:.4g}  {}{:.0f} candidates/s  {}lr {:.2g}  eta {}", now.step, now.total_steps,
                  now.loss, metric, report.candidates_per_second, exposed, report.learning_rate, eta);
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
