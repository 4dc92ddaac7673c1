#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

namespace foretime::jobs {

/// Holds one message of a job; only the fields of its kind are set. Numbers that are not finite arrive as NaN.
struct ProgressMessage {
  enum class Kind { hello, progress, evaluation, checkpoint, result } kind = Kind::progress;
  int64_t step = 0, total_steps = 0;       // progress, evaluation, checkpoint, result; total_steps 0: not known
  double loss = 0, eta_seconds = -1;       // progress: newest loss, NaN: none; remaining seconds, -1: not known
  int64_t scored = 0;                      // progress: candidates scored by evaluations so far; rises between two steps
  std::map<std::string, double> values{};  // progress: measurements of this step by name: losses, rates, memory
  int64_t iteration = 0;                   // evaluation: number of evaluations, including those before a resume
  std::map<std::string, double> metrics{};  // evaluation, result: metrics by name
  std::string path{};                       // checkpoint: folder of a whole checkpoint
  int64_t pid = 0;                          // hello: process number of the job; 0: not known
  /// Entries of values and metrics that were skipped, because they are no numbers or their names are empty or above 200
  /// bytes. Key: values.NAME or metrics.NAME; value: the text that was found, or the length of the name.
  std::map<std::string, std::string> invalid_entries{};
  bool operator==(const ProgressMessage&) const = default;
};
constexpr size_t kProgressLine = 64 << 10;  // most bytes of a message's line, with the newline
constexpr size_t kProgressMetrics = 500;    // most values or metrics: to_line() refuses more, agents leave out the rest

/// Returns the JSON line of a message with its newline. Throws JobsError if the message exceeds one of the limits.
std::string to_line(const ProgressMessage& message);
/// Parses JSON, also as Python's json.dumps writes it: NaN, Infinity and -Infinity become null. Throws
/// nlohmann::json::exception for other text.
nlohmann::json parse_python_json(const std::string& text);
/// Parses a message. Entries of values and metrics that are null or not finite become NaN; other entries that are no
/// numbers go to `invalid_entries`. Throws JobsError if the line is not a message: too long, not JSON, an unknown type,
/// or a field that is missing or has the wrong type.
ProgressMessage parse_progress_message(const std::string& line);

/// Returns the agent's message, with the newline, that asks a job to write a checkpoint and stop at the next step
/// boundary. Only the first 200 bytes of `reason` are sent.
std::string stop_line(const std::string& reason);
/// Returns whether a line is a JSON object whose member "stop" is true, such as stop_line().
bool is_stop_line(const std::string& line);

}  // namespace foretime::jobs
