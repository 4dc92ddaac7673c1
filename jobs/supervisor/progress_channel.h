#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

/// How a job that runs talks to its agent: a Unix stream socket whose path stands in FORETIME_PROGRESS, one JSON object
/// a line, both ways. The child needs no Redis. docs/progress.md has the messages, so that any program can speak them.
namespace foretime::jobs {

/// One message of the child; only what its kind needs is set. A loss or metric that is not finite travels as null and
/// arrives as NaN.
struct ProgressMessage {
  enum class Kind { hello, progress, evaluation, checkpoint, result } kind = Kind::progress;
  int64_t step = 0, total_steps = 0;      // progress, evaluation, checkpoint, result
  double loss = 0, eta_seconds = -1;      // progress
  int64_t scored = 0;                     // progress: candidates that evaluations have scored; rises between two steps
  int64_t iteration = 0;                  // evaluation: how many there were, with those before a resume
  std::map<std::string, double> metrics;  // evaluation, result
  std::string path;                       // checkpoint: folder of a whole checkpoint
  int64_t pid = 0;                        // hello
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

/// The child's end. Rank 0 alone opens it. A lost agent is no failure of the training: sending then does nothing.
class ProgressSender {
 public:
  /// Null where FORETIME_PROGRESS is not set; also where nobody listens there, which is logged to stderr. Says hello.
  static std::unique_ptr<ProgressSender> from_environment();
  explicit ProgressSender(int socket);  // takes the descriptor
  ~ProgressSender();
  ProgressSender(const ProgressSender&) = delete;
  ProgressSender& operator=(const ProgressSender&) = delete;

  /// Never blocks for long: progress messages are dropped while the agent does not read, others wait up to a second
  /// and are then kept for the next call. Progress is sent at most once in `kProgressInterval`.
  void send(const ProgressMessage& message);
  /// Whether the agent asked the job to stop at the next step boundary; stays true.
  bool stop_requested();
  static constexpr double kProgressInterval = 0.5;  // seconds

 private:
  bool flush(double patience_seconds);  // true: nothing is pending

  int socket_;
  bool stop_ = false, broken_ = false;
  double last_progress_ = -1e9;
  std::string received_, pending_;
};

/// Ends this process when its parent dies (PR_SET_PDEATHSIG), where FORETIME_PROGRESS is set: mpirun's ranks then never
/// outlive mpirun. Called first thing in main, by the thread that lives as long as the process.
void die_with_parent_if_job();

}  // namespace foretime::jobs
