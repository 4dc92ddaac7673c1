#pragma once

#include <cstdint>
#include <future>

#include "models/losses/losses.h"
#include "worker/batches/forward_pass.h"
#include "worker/batches/sampler.h"
#include "worker/profile/profiler.h"

namespace foretime::worker {

/// Prepares the next batch in a thread of its own while the current one is computed.
class BatchLoader {
 public:
  /// Keeps references to its arguments. `profiler`, where there is one, records when a batch is made.
  BatchLoader(const Sampler& sampler, const GroupStore& store, const models::TargetTransform& targets,
              const ForwardPass& forward, int rank, Profiler* profiler = nullptr)
      : sampler_(sampler), store_(store), targets_(targets), forward_(forward), rank_(rank), profiler_(profiler) {}

  /// Batch `number`; begins with `number + 1` before returning where `more` is set.
  Batch get(int64_t number, bool more);

 private:
  Batch prepare(int64_t number) const;

  const Sampler& sampler_;
  const GroupStore& store_;
  const models::TargetTransform& targets_;
  const ForwardPass& forward_;
  int rank_;
  Profiler* profiler_;
  int64_t next_number_ = -1;
  std::future<Batch> next_;
};

}  // namespace foretime::worker
