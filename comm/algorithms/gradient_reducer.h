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

/// Sums gradients over ranks in buckets. Each bucket starts as soon as its gradients are final, while backward
/// continues. Buckets hold the parameters in reverse order and start in the same order on every rank.
///   reducer.prepare();  loss.backward();  reducer.finish();
/// Other collectives may be called between `flush`, which starts all buckets, and `finish`. With accumulation,
/// `prepare` precedes the last backward only. A rank without work only calls prepare and finish.
class GradientReducer {
 public:
  struct Parameter {
    std::string name;
    torch::Tensor tensor;
  };
  /// `wire` and `route` apply to float32 gradients. Other types, and float32 over NCCL, use Communicator::all_reduce.
  GradientReducer(Communicator& communicator, std::vector<Parameter> parameters, int64_t bucket_bytes,
                  Wire wire = Wire::float32, Route route = Route::fastest);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Arms the hooks: the gradients of the next backward are final.
  void prepare();
  /// Starts the remaining buckets; parameters without a gradient count as zeros. No backward may follow.
  void flush();
  /// Flushes, waits for all buckets and stores the sums in `.grad` of every parameter. Over NCCL the GPU's stream
  /// waits, and the host only for the buckets of the previous step (Communicator::settle waits for the rest).
  void finish();
  /// Returns the parameters that had no gradient on this rank in some step so far; each is returned by one call only.
  std::vector<std::string> take_unused();

  using Clock = std::chrono::steady_clock;
  struct BucketTiming {
    int64_t bytes = 0;          // gradients in their type
    Clock::time_point started;  // when its gradients were final
    Clock::time_point done;     // when this rank saw its sum, or left it to its GPU
  };
  /// Holds the times of the last step.
  struct Timing {
    // wait of `finish`; over NCCL the wait of the stream, in the last step that it has finished
    double exposed_seconds = 0;
    int64_t started_early = 0;  // number of buckets that started during backward
    Clock::time_point wait_began, wait_ended;
    std::vector<BucketTiming> buckets;  // ordered by start
  };
  /// Returns the times of the last step.
  Timing timing() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace foretime::comm
