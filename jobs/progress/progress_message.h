#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

namespace foretime::jobs {

/// Holds one message of a job; only the fields of its kind are set. A loss or metric that is not finite is sent as null
/// and arrives as NaN.
struct ProgressMessage {
  enum class Kind { hello, progress, evaluation, checkpoint, result } kind = Kind::progress;
  int64_t step = 0, total_steps = 0;       // progress, evaluation, checkpoint, result
  double loss = 0, eta_seconds = -1;       // progress
  int64_t scored = 0;                      // progress: candidates scored by evaluations so far; rises between two steps
  std::map<std::string, double> values{};  // progress: measurements of this step: losses, rates, memory
  int64_t iteration = 0;                   // evaluation: number of evaluations, including those before a resume
  std::map<std::string, double> metrics{};  // evaluation, result
  std::string path{};                       // checkpoint: folder of a whole checkpoint
  int64_t pid = 0;                          // hello
  /// Holds the skipped entries of values and metrics that are not numbers: text of the value, by metrics.NAME.
  std::map<std::string, std::string> invalid_entries{};
  bool operator==(const ProgressMessage&) const = default;
};
/// Limits a message: bytes of its line with the newline, and the number of metrics that are sent and kept.
constexpr size_t kProgressLine = 64 << 10;
constexpr size_t kProgressMetrics = 500;

std::string to_line(const ProgressMessage& message);  // includes the newline; throws JobsError past the limits
/// Parses JSON as Python's json.dumps writes it: NaN, Infinity and -Infinity become null. Throws
/// nlohmann::json::exception.
nlohmann::json parse_python_json(const std::string& text);
/// Parses a message. Entries of values and metrics that are null or not finite become NaN; entries that are not numbers
/// go to `invalid_entries`. Throws JobsError if the line is not a message: not JSON, unknown kind, a field of the wrong
/// type.
ProgressMessage parse_progress_message(const std::string& line);

/// Returns the agent's message that asks a job to stop at the next step boundary, after a checkpoint.
std::string stop_line(const std::string& reason);  // includes the newline
bool is_stop_line(const std::string& line);

}  // namespace foretime::jobs
