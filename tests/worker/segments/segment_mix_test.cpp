#include "worker/segments/segment_mix.h"

#include <gtest/gtest.h>

#include "base/counter_random.h"

namespace foretime::worker {
namespace {

TEST(SegmentMix, PublishedFactorWhereAllPastValuesAreThere) {
  const auto mix = mix_segments(
      {.candidates = 1, .segments = 9, .fresh_first = 4, .fresh_end = 5, .keep_probability = 0.5, .key = 1},
      [](int64_t, int64_t) { return true; });
  EXPECT_FLOAT_EQ(mix.fresh[0].item<float>(), 8 / 2.0F + 1);
  EXPECT_EQ(mix.stale[0][4].item<float>(), 0) << "the fresh segment has no stale value";
}

TEST(SegmentMix, AbsentValuesAreMadeUpForCandidateByCandidate) {
  // Candidate 0 has no past values, candidate 1 all three, candidate 2 one of them.
  const auto mix = mix_segments(
      {.candidates = 3, .segments = 4, .fresh_first = 0, .fresh_end = 1, .keep_probability = 1.0, .key = 1},
      [](int64_t c, int64_t s) { return c == 1 || (c == 2 && s == 3); });
  EXPECT_TRUE(torch::equal(mix.fresh, torch::tensor({4.0F, 1.0F, 3.0F})));
  EXPECT_TRUE(torch::equal(
      mix.stale, torch::tensor({{0.0F, 0.0F, 0.0F, 0.0F}, {0.0F, 1.0F, 1.0F, 1.0F}, {0.0F, 0.0F, 0.0F, 1.0F}})));
}

TEST(SegmentMix, SeveralFreshSegmentsShareWhatIsMissing) {
  const auto mix = mix_segments(
      {.candidates = 1, .segments = 6, .fresh_first = 2, .fresh_end = 5, .keep_probability = 1.0, .key = 1},
      [](int64_t, int64_t s) { return s != 0; });
  EXPECT_FLOAT_EQ(mix.fresh[0].item<float>(), 1 + 1 / 3.0F);
  EXPECT_EQ(mix.stale.sum().item<float>(), 2);
}

TEST(SegmentMix, TheExpectedSumIsTheSumOverAllSegments) {
  constexpr int64_t kSegments = 5, kDraws = 40000;
  const double value[kSegments] = {1.0, -2.0, 0.5, 4.0, 3.0};
  // With all past values there, for any keep probability.
  for (const double keep : {0.0, 0.3, 0.5, 1.0}) {
    double sum = 0;
    for (int64_t draw = 0; draw < kDraws; ++draw) {
      const auto key = random_bits({9, static_cast<uint64_t>(draw)});
      const int64_t live = live_segment(key, 0, kSegments);
      const auto mix = mix_segments({.candidates = 1,
                                     .segments = kSegments,
                                     .fresh_first = live,
                                     .fresh_end = live + 1,
                                     .keep_probability = keep,
                                     .key = key},
                                    [](int64_t, int64_t) { return true; });
      sum += value[live] * static_cast<double>(mix.fresh.data_ptr<float>()[0]);
      for (int64_t s = 0; s < kSegments; ++s) sum += value[s] * static_cast<double>(mix.stale.data_ptr<float>()[s]);
    }
    EXPECT_NEAR(sum / kDraws, 6.5, 0.2) << "keep probability " << keep;
  }
}

TEST(SegmentMix, DrawsDependOnTheKeyAlone) {
  const MixRequest request{
      .candidates = 4, .segments = 8, .fresh_first = 1, .fresh_end = 2, .keep_probability = 0.5, .key = 77};
  const auto all = [](int64_t, int64_t) { return true; };
  EXPECT_TRUE(torch::equal(mix_segments(request, all).stale, mix_segments(request, all).stale));
  auto other = request;
  other.key = 78;
  EXPECT_FALSE(torch::equal(mix_segments(request, all).stale, mix_segments(other, all).stale));
}

}  // namespace
}  // namespace foretime::worker
