#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <torch/types.h>

namespace foretime::worker {

/// How the segments of one sample count, candidate by candidate. Of S segments F are fresh (computed in this step), and
/// P of the others have a value; each of these is kept with probability p. The fresh ones make up for what is missing
/// or left out: each counts 1 + ((S - F - P) + (1 - p) P) / F times, a kept one once. Over samples in which each
/// segment is the fresh one equally often, the expected sum is the sum over all segments. With F = 1 and P = S - 1 this
/// is the published (S - 1)(1 - p) + 1.
struct SegmentMix {
  torch::Tensor fresh;  // [candidates] float32, the factor of each fresh segment
  torch::Tensor stale;  // [candidates, segments] float32, 1 where a stale segment is kept, else 0
};

struct MixRequest {
  int64_t candidates = 0, segments = 0;
  int64_t fresh_first = 0, fresh_end = 1;  // the fresh segments
  double keep_probability = 1;
  uint64_t key = 0;  // of the sample's random choices
};

/// `present(candidate, segment)`: whether a stale segment has a value for the sample's candidate of that position.
SegmentMix mix_segments(const MixRequest& request, const std::function<bool(int64_t, int64_t)>& present);

/// The live segment of a sample: one of [first, end), a function of the sample's key.
int64_t live_segment(uint64_t key, int64_t first, int64_t end);

}  // namespace foretime::worker
