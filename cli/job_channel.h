#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "jobs/progress/channel.h"
#include "worker/step/events.h"

namespace foretime::cli {

/// This process as a job of an agent, where it is one (FORETIME_PROGRESS): rank 0 tells the agent how the run goes, and
/// hears when it is to stop. Without an agent nothing is sent and nothing is asked.
class JobChannel {
 public:
  /// All ranks call it: each learns whether there is an agent.
  explicit JobChannel(comm::Communicator& comm);
  /// Follows the training of model number `index` of `models` that are trained one after another: the agent sees one
  /// row of rising steps. Evaluations and checkpoints are the job's own for the first model alone. The channel must
  /// outlive it.
  std::unique_ptr<worker::TrainingListener> listener(int64_t index, int64_t models);
  /// Whether an agent waits for trainer.metric of model number `index`; equal on all ranks.
  bool metric_required(int64_t index) const { return is_job_ && index == 0; }
  /// For an evaluation that is a job of its own; empty without an agent.
  std::function<void(int64_t)> scored();
  void send_result(int64_t step, const std::map<std::string, double>& metrics);

 private:
  friend class JobListener;

  std::unique_ptr<jobs::ProgressSender> sender_;  // rank 0 of a job
  bool is_job_ = false;
  jobs::ProgressMessage progress_;  // the last one
};

}  // namespace foretime::cli
