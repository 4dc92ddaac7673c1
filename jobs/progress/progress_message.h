#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace foretime::jobs {

/// One message of a job; only what its kind needs is set. A loss or metric that is not finite is sent as null and
/// arrives as NaN.
struct ProgressMessage {
  enum class Kind { hello, progress, evaluation, checkpoint, result } kind = Kind::progress;
  int64_t step = 0, total_steps = 0;       // progress, evaluation, checkpoint, result
  double loss = 0, eta_seconds = -1;       // progress
  int64_t scored = 0;                      // progress: candidates that evaluations have scored; rises between two steps
  std::map<std::string, double> values{};  // progress: measured at this step: losses, rates, memory
  int64_t iteration = 0;                   // evaluation: how many there were, with those before a resume
  std::map<std::string, double> metrics{};  // evaluation, result
  std::string path{};                       // checkpoint: folder of a whole checkpoint
  int64_t pid = 0;                          // hello
  bool operator==(const ProgressMessage&) const = default;
};
/// Bounds of a message: bytes of its line with the newline, number of metrics.
constexpr size_t kProgressLine = 64 << 10;
constexpr size_t kProgressMetrics = 500;

std::string to_line(const ProgressMessage& message);  // with the newline; throws JobsError past the bounds
/// Throws JobsError where the line is not a message: not JSON, unknown kind, a value of the wrong type, not finite.
ProgressMessage parse_progress_message(const std::string& line);

/// The agent's message: stop at the next step boundary, after a checkpoint.
std::string stop_line(const std::string& reason);  // with the newline
bool is_stop_line(const std::string& line);

}  // namespace foretime::jobs
