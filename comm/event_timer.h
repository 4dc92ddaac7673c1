#pragma once

#include <array>

#include <cuda_runtime.h>

#include "base/no_copy.h"
#include "comm/torch_stream.h"

namespace foretime::comm {

/// Implements StreamTimer by CUDA's events, in two pairs, since the GPU may be a step behind the host.
class EventTimer final : public StreamTimer, NoCopy {
 public:
  /// Makes the events on the current GPU, which must be `gpu`.
  explicit EventTimer(int gpu) : gpu_(gpu) {
    for (auto& pair : pairs_)
      for (auto& event : pair.events) cudaEventCreateWithFlags(&event, cudaEventDefault);
  }
  ~EventTimer() override {
    for (auto& pair : pairs_)
      for (auto& event : pair.events) cudaEventDestroy(event);
  }

  void begin() override {
    seconds();
    newest_ = 1 - newest_;
    pairs_[newest_].open = false;
    cudaEventRecord(pairs_[newest_].events[0], stream());
  }
  void end() override {
    cudaEventRecord(pairs_[newest_].events[1], stream());
    pairs_[newest_].open = true;
  }
  double seconds() override {
    for (auto* pair : {&pairs_[1 - newest_], &pairs_[newest_]}) {
      float milliseconds = 0;
      if (!pair->open || cudaEventQuery(pair->events[1]) != cudaSuccess) continue;
      pair->open = false;
      if (cudaEventElapsedTime(&milliseconds, pair->events[0], pair->events[1]) == cudaSuccess)
        last_ = 1e-3 * milliseconds;
    }
    return last_;
  }

 private:
  struct Pair {
    std::array<cudaEvent_t, 2> events{};
    bool open = false;  // both events are recorded, and their times are not yet read
  };
  cudaStream_t stream() const { return static_cast<cudaStream_t>(torch_current_stream(gpu_)); }

  const int gpu_;
  std::array<Pair, 2> pairs_;
  size_t newest_ = 0;  // pair that begin() has chosen last
  double last_ = 0;    // seconds of the last pair that was read
};

}  // namespace foretime::comm
