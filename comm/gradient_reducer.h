#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "comm/communicator.h"

namespace foretime::comm {

/// Sums gradients over ranks in buckets, each started as soon as its gradients are there, while backward goes on.
/// Buckets hold the parameters in reverse order and start in the same order on every rank.
///   reducer.prepare();  loss.backward();  reducer.finish();
/// With accumulation, `prepare` comes before the last backward only. A rank without work calls prepare and finish
/// alone.
class GradientReducer {
 public:
  struct Parameter {
    std::string name;
    torch::Tensor tensor;
  };
  GradientReducer(Communicator& communicator, std::vector<Parameter> parameters, int64_t bucket_bytes);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Arms the hooks: the next backward's gradients are final.
  void prepare();
  /// Starts what has not started (parameters without a gradient count as zeros), waits for all buckets and leaves the
  /// sums in
  /// `.grad` of every parameter.
  void finish();
  /// Parameters to which this rank gave no gradient in some step so far and that were not named before: each is named
  /// once.
  std::vector<std::string> take_unused();

  struct Timing {
    double exposed_seconds = 0;  // time `finish` waited, of the last step
    int64_t started_early = 0;   // buckets that started during backward, of the last step
  };
  Timing timing() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace foretime::comm
