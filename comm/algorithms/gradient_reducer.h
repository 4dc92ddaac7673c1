#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

#include "comm/algorithms/tree_sum.h"
#include "comm/communicator.h"

namespace foretime::comm {

/// Sums gradients over ranks in buckets, each started as soon as its gradients are there, while backward goes on.
/// Buckets hold the parameters in reverse order and start in the same order on every rank.
///   reducer.prepare();  loss.backward();  reducer.finish();
/// Between the two, other collectives may follow `flush`, which has started all buckets.
/// With accumulation, `prepare` comes before the last backward only. A rank without work calls prepare and finish
/// alone.
class GradientReducer {
 public:
  struct Parameter {
    std::string name;
    torch::Tensor tensor;
  };
  /// `wire` and `route` are those of float32 gradients. Other types, and float32 over NCCL, go by
  /// Communicator::all_reduce.
  GradientReducer(Communicator& communicator, std::vector<Parameter> parameters, int64_t bucket_bytes,
                  Wire wire = Wire::float32, Route route = Route::fastest);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Arms the hooks: the next backward's gradients are final.
  void prepare();
  /// Starts the buckets that have not started; parameters without a gradient count as zeros. No backward may follow.
  void flush();
  /// Flushes, waits for all buckets and leaves the sums in `.grad` of every parameter. Over NCCL the GPU's stream
  /// waits, and the host only for the buckets of the step before (Communicator::settle waits for the rest).
  void finish();
  /// Parameters to which this rank gave no gradient in some step so far and that were not named before: each is named
  /// once.
  std::vector<std::string> take_unused();

  using Clock = std::chrono::steady_clock;
  struct BucketTiming {
    int64_t bytes = 0;          // of its gradients, in their own type
    Clock::time_point started;  // its gradients were there
    Clock::time_point done;     // this rank saw that its sum was there, or left it to its GPU
  };
  /// Of the last step.
  struct Timing {
    double exposed_seconds = 0;  // time `finish` waited; over NCCL: its stream, in the last step that it has done
    int64_t started_early = 0;   // buckets that started during backward
    Clock::time_point wait_began, wait_ended;
    std::vector<BucketTiming> buckets;  // in the order in which they started
  };
  Timing timing() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace foretime::comm
