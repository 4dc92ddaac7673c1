#pragma once

namespace foretime::worker {

/// Turns SIGTERM and SIGINT into a request that the training loop sees at its next step boundary, while it lives. A
/// second SIGINT ends the process as usual.
class PreemptionGuard {
 public:
  PreemptionGuard();
  ~PreemptionGuard();
  PreemptionGuard(const PreemptionGuard&) = delete;
  PreemptionGuard& operator=(const PreemptionGuard&) = delete;
  bool requested() const;
};

}  // namespace foretime::worker
