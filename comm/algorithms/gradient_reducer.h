#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

#include "base/no_copy.h"
#include "comm/algorithms/tree_sum.h"
#include "comm/communicator.h"

namespace foretime::comm {

/// Sums gradients over ranks in buckets: parameters in reverse order, of one type and device. A bucket starts as soon
/// as its gradients are final and the buckets before it have started, while backward continues.
///   reducer.prepare();  loss.backward();  reducer.finish();
/// Other collectives may be called between `flush`, which starts all buckets, and `finish`. With accumulation,
/// `prepare` precedes the last backward only. A rank without work only calls prepare and finish. Calls in another order
/// throw BrokenInvariant. A failure is thrown again by all later calls but take_unused and timing. A single rank sums
/// nothing, and its calls are not checked.
class GradientReducer : NoCopy {
 public:
  struct Parameter {
    std::string name;
    torch::Tensor tensor;
  };
  /// Ignores parameters that require no gradient; others must be leaves. A bucket has at most `bucket_bytes` bytes, or
  /// one parameter. `wire` and `route` apply to float32. Other types, and Wire::float32 over NCCL, use all_reduce().
  GradientReducer(Communicator& communicator, std::vector<Parameter> parameters, int64_t bucket_bytes,
                  Wire wire = Wire::float32, Route route = Route::fastest);
  ~GradientReducer();

  /// Declares that the gradients of the next backward are final, so that this backward starts the buckets.
  void prepare();
  /// Starts the remaining buckets; parameters without a gradient count as zeros. No backward may follow.
  void flush();
  /// Calls flush(), waits for all buckets and stores the sums (or zeros) in `.grad` of every parameter. Over NCCL only
  /// the GPU waits; the host waits for the buckets of the previous step (see Communicator::settle).
  void finish();
  /// Returns the parameters that lacked a gradient here in a step in which others had one; each only once.
  std::vector<std::string> take_unused();

  using Clock = std::chrono::steady_clock;
  struct BucketTiming {
    int64_t bytes = 0;          // bytes of the gradients before any rounding to Wire::bfloat16
    Clock::time_point started;  // time at which the sum of the bucket began
    Clock::time_point done;     // time at which this rank saw the sum, or made its GPU wait for the sum
  };
  /// Holds the times of the last step.
  struct Timing {
    // duration of the wait in finish(); over NCCL that of the GPU's stream, in the last step that the GPU has finished
    double exposed_seconds = 0;
    int64_t started_early = 0;                 // number of buckets that started during backward
    Clock::time_point wait_began, wait_ended;  // the host's wait in finish()
    std::vector<BucketTiming> buckets;         // ordered by start
  };
  /// Returns the times of the last step; complete after finish().
  Timing timing() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace foretime::comm
