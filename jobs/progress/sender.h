#pragma once

#include <memory>
#include <string>

#include "jobs/progress/message.h"

namespace foretime::jobs {

/// The job's end of the progress socket, which rank 0 alone opens. A lost agent does not fail the training: sending
/// then does nothing.
class ProgressSender {
 public:
  /// Connects to FORETIME_PROGRESS and says hello. Null where the variable is not set, and where nobody listens there,
  /// which is logged to stderr.
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

/// Ends this process when its parent dies (PR_SET_PDEATHSIG), where FORETIME_PROGRESS is set, so that mpirun's ranks
/// never outlive mpirun. main calls it first, from the thread that lives as long as the process.
void die_with_parent_if_job();

}  // namespace foretime::jobs
