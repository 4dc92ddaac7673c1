#pragma once

#include "worker/step/events.h"

namespace foretime::worker {

/// Turns SIGTERM and SIGINT into a request that the training loop sees at its next step boundary, while it lives. A
/// second SIGINT ends the process as usual.
class PreemptionGuard final : public TrainingListener {
 public:
  PreemptionGuard();
  ~PreemptionGuard() override;
  PreemptionGuard(const PreemptionGuard&) = delete;
  PreemptionGuard& operator=(const PreemptionGuard&) = delete;
  bool stop_requested() override;
};

}  // namespace foretime::worker
