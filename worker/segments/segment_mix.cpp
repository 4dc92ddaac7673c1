#include "worker/segments/segment_mix.h"

#include "base/counter_random.h"

namespace foretime::worker {
namespace {}  // namespace

SegmentMix mix_segments(const MixRequest& request, const std::function<bool(int64_t, int64_t)>& present) {
  SegmentMix mix{torch::empty({request.candidates}, torch::kFloat),
                 torch::zeros({request.candidates, request.segments}, torch::kFloat)};
  auto* factor = mix.fresh.data_ptr<float>();
  auto* kept = mix.stale.data_ptr<float>();
  const auto fresh = static_cast<double>(request.fresh_end - request.fresh_first);
  const double p = request.keep_probability;
  for (int64_t c = 0; c < request.candidates; ++c, kept += request.segments) {
    double missing = 0;
    for (int64_t s = 0; s < request.segments; ++s) {
      if (s >= request.fresh_first && s < request.fresh_end) continue;
      if (!present(c, s)) {
        missing += 1;
        continue;
      }
      missing += 1 - p;
      const double drawn =
          random_unit({request.key, random_stream::kept_segments, static_cast<uint64_t>(c), static_cast<uint64_t>(s)});
      if (drawn < p) kept[s] = 1.0F;
    }
    factor[c] = static_cast<float>(1 + missing / fresh);
  }
  return mix;
}

int64_t live_segment(uint64_t key, int64_t first, int64_t end) {
  // The bias of a remainder is below 2^-40 for any number of segments that a graph can have.
  return first +
         static_cast<int64_t>(random_bits({key, random_stream::live_segment}) % static_cast<uint64_t>(end - first));
}

}  // namespace foretime::worker
