#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "jobs/progress/channel.h"
#include "worker/step/events.h"

namespace foretime::cli {

/// Connects this process to its agent if it runs as a job (FORETIME_PROGRESS). Rank 0 reports progress and receives
/// requests to stop. Without an agent, nothing is reported. Must outlive its listeners and functions.
class JobChannel {
 public:
  /// Connects to the agent, if there is one. All ranks must call it together; then all know whether there is an agent.
  explicit JobChannel(comm::Communicator& comm);
  /// Returns a listener for the training of model `index` (from 0) of `models` that are trained one after another; the
  /// agent sees one rising series of steps. Only model 0 reports values, evaluations and checkpoints.
  std::unique_ptr<worker::TrainingListener> listener(int64_t index, int64_t models);
  /// Returns whether the agent waits for trainer.metric of model `index`: in a job, of model 0. Equal on all ranks.
  bool metric_required(int64_t index) const { return is_job_ && index == 0; }
  /// Returns a function that adds newly scored candidates to the reported number; empty if nothing is reported.
  std::function<void(int64_t)> scored();
  /// Sends the last step and the final metrics to the agent, on rank 0.
  void send_result(int64_t step, const std::map<std::string, double>& metrics);

 private:
  friend class JobListener;

  std::unique_ptr<jobs::ProgressSender> sender_;  // null except on rank 0 of a job
  bool is_job_ = false;                           // equal on all ranks
  jobs::ProgressMessage progress_;                // last progress that was sent
};

}  // namespace foretime::cli
