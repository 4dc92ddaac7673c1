#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "jobs/progress/channel.h"
#include "worker/step/events.h"

namespace foretime::cli {

/// Connects this process to its agent if it runs as a job (FORETIME_PROGRESS): rank 0 reports progress and receives
/// requests to stop. Does nothing without an agent.
class JobChannel {
 public:
  /// Connects to the agent, if there is one. All ranks call it, and all learn whether there is an agent.
  explicit JobChannel(comm::Communicator& comm);
  /// Returns a listener for the training of model number `index` of `models` that are trained one after another: the
  /// agent sees one rising series of steps. Only the first model reports evaluations and checkpoints. The channel must
  /// outlive the listener.
  std::unique_ptr<worker::TrainingListener> listener(int64_t index, int64_t models);
  /// Returns whether an agent waits for trainer.metric of model number `index`; equal on all ranks.
  bool metric_required(int64_t index) const { return is_job_ && index == 0; }
  /// Returns a function that reports the number of scored candidates of an evaluation job; empty without an agent.
  std::function<void(int64_t)> scored();
  /// Sends the final metrics to the agent; does nothing without one.
  void send_result(int64_t step, const std::map<std::string, double>& metrics);

 private:
  friend class JobListener;

  std::unique_ptr<jobs::ProgressSender> sender_;  // only on rank 0 of a job
  bool is_job_ = false;
  jobs::ProgressMessage progress_;  // last message
};

}  // namespace foretime::cli
