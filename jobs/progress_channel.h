#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

/// How a job that runs talks to its agent: a Unix stream socket whose path stands in FORETIME_PROGRESS, one JSON object
/// a line, both ways. The child needs no Redis. docs/jobs.md has the messages, so that any program can speak them.
namespace foretime::jobs {

/// One message of the child; only what its kind needs is set.
struct ProgressMessage {
  enum class Kind { hello, progress, evaluation, checkpoint, result } kind = Kind::progress;
  int64_t step = 0, total_steps = 0;      // progress, evaluation, checkpoint, result
  double loss = 0, eta_seconds = -1;      // progress
  int64_t iteration = 0;                  // evaluation: how many there were, with those before a resume
  std::map<std::string, double> metrics;  // evaluation, result
  std::string path;                       // checkpoint: folder of a whole checkpoint
  int64_t pid = 0;                        // hello
};
std::string to_line(const ProgressMessage& message);  // with the newline
/// Throws JobsError where the line is not a message: not JSON, unknown kind, a value of the wrong type, not finite.
ProgressMessage parse_progress_message(const std::string& line);

/// The child's end. Rank 0 alone opens it. A lost agent is no failure of the training: sending then does nothing.
class ProgressSender {
 public:
  /// Null where FORETIME_PROGRESS is not set; also where nobody listens there, which is logged to stderr.
  static std::unique_ptr<ProgressSender> from_environment();
  explicit ProgressSender(int socket);
  ~ProgressSender();
  ProgressSender(const ProgressSender&) = delete;
  ProgressSender& operator=(const ProgressSender&) = delete;

  /// Never blocks for long: progress messages are dropped while the agent does not read, others wait up to a second.
  /// Progress is sent at most once in `kProgressInterval`.
  void send(const ProgressMessage& message);
  /// Whether the agent asked the job to stop at the next step boundary; stays true.
  bool stop_requested();
  static constexpr double kProgressInterval = 0.5;  // seconds

 private:
  int socket_;
  bool stop_ = false, broken_ = false;
  double last_progress_ = -1e9;
  std::string received_;
};

/// Ends this process when its parent dies (PR_SET_PDEATHSIG), where FORETIME_PROGRESS is set: mpirun's ranks then never
/// outlive mpirun. Called first thing in main.
void die_with_parent_if_job();

}  // namespace foretime::jobs
