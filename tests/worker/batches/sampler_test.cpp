#include "worker/batches/sampler.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "tests/worker/samples.h"

namespace foretime::worker {
namespace {

struct SampleRun : testing::RunParts {
  explicit SampleRun(int rank_count, double fast_bias = 0)
      : RunParts(testing::sample_settings(fast_bias), rank_count), ranks(rank_count) {}
  Sampler sampler(uint64_t seed = 1) const { return {plan, settings.sampler, seed}; }
  int ranks;
};

std::vector<Sample> all_ranks(const SampleRun& run, int64_t batch) {
  std::vector<Sample> entries;
  for (int rank = 0; rank < run.ranks; ++rank) {
    for (auto& entry : run.sampler().samples(batch, rank, run.store)) entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.entry, a.candidates) < std::tie(b.entry, b.candidates);
  });
  return entries;
}

/// Of the first batches.
std::vector<Sample> samples_of(const SampleRun& run, int64_t batches) {
  std::vector<Sample> samples;
  for (int64_t batch = 0; batch < batches; ++batch) {
    for (auto& sample : run.sampler().samples(batch, 0, run.store)) samples.push_back(std::move(sample));
  }
  return samples;
}

TEST(Sampler, SeveralRanksDrawWhatOneDraws) {
  const SampleRun one(1), two(2), three(3);
  for (int64_t batch = 0; batch < 12; ++batch) {
    const auto expected = all_ranks(one, batch);
    for (const auto& other : {all_ranks(two, batch), all_ranks(three, batch)}) {
      ASSERT_EQ(other.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(other[i].entry, expected[i].entry);
        EXPECT_EQ(other[i].candidates, expected[i].candidates);
        EXPECT_EQ(other[i].weight, expected[i].weight);
      }
    }
  }
}

TEST(Sampler, WeightsOfABatchSumToOne) {
  const SampleRun run(2);
  for (int64_t batch = 0; batch < 2 * run.plan.batches_per_epoch; ++batch) {
    double sum = 0;
    for (const auto& entry : all_ranks(run, batch)) sum += entry.weight;
    EXPECT_NEAR(sum, 1.0, 1e-12);
  }
}

TEST(Sampler, CandidatesAreDistinctTrainingCandidates) {
  for (const double bias : {0.0, 2.0}) {
    const SampleRun run(1, bias);
    for (const auto& entry : samples_of(run, 6)) {
      const auto& train = run.store.get(entry.entry).train;
      const std::set<int64_t> seen(entry.candidates.begin(), entry.candidates.end());
      EXPECT_EQ(seen.size(), entry.candidates.size());
      EXPECT_EQ(static_cast<int64_t>(seen.size()),
                std::min<int64_t>(run.settings.sampler.candidates_per_group, static_cast<int64_t>(train.size())));
      for (const int64_t c : seen) EXPECT_TRUE(std::binary_search(train.begin(), train.end(), c));
    }
  }
}

TEST(Sampler, ZeroCandidatesAreAllOfThem) {
  for (const double bias : {0.0, 2.0}) {
    SampleRun run(1, bias);
    run.settings.sampler.candidates_per_group = 0;
    const auto samples = samples_of(run, run.plan.batches_per_epoch);
    EXPECT_FALSE(samples.empty());
    for (auto entry : samples) {
      std::sort(entry.candidates.begin(), entry.candidates.end());
      EXPECT_EQ(entry.candidates, run.store.get(entry.entry).train);
    }
  }
}

TEST(Sampler, AnEpochHasEveryDrawOfEveryGroupOnce) {
  const SampleRun run(1);
  const auto& settings = run.settings.sampler;
  std::map<int64_t, int64_t> draws;
  std::map<int64_t, std::set<int64_t>> candidates;
  for (const auto& entry : samples_of(run, run.plan.batches_per_epoch)) {
    ++draws[entry.entry];
    candidates[entry.entry].insert(entry.candidates.begin(), entry.candidates.end());
  }
  for (const int64_t entry : run.dataset.with_role(sharding::Role::train)) {
    EXPECT_EQ(draws[entry], settings.samples_per_group);
    // Draws of an epoch do not repeat a candidate before all were drawn.
    EXPECT_EQ(candidates[entry].size(),
              std::min(run.store.get(entry).train.size(),
                       static_cast<size_t>(settings.samples_per_group * settings.candidates_per_group)));
  }
}

TEST(Sampler, EpochsAndSeedsChangeTheDraws) {
  const SampleRun run(1);
  const auto first = [&](uint64_t seed, int64_t batch) {
    return run.sampler(seed).samples(batch, 0, run.store)[0].candidates;
  };
  EXPECT_NE(first(1, 0), first(2, 0));
  EXPECT_NE(first(1, 0), first(1, run.plan.batches_per_epoch));
}

TEST(Sampler, ABiasPrefersFastCandidates) {
  SampleRun run(1, 1.0);
  const auto mean_rank = [&](double bias) {
    run.settings.sampler.fast_bias = bias;
    double sum = 0, count = 0;
    for (const auto& entry : samples_of(run, 20)) {
      const auto& loaded = run.store.get(entry.entry);
      for (const int64_t c : entry.candidates) {
        const auto at = std::lower_bound(loaded.train.begin(), loaded.train.end(), c) - loaded.train.begin();
        sum += loaded.speed_rank[static_cast<size_t>(at)];
        count += 1;
      }
    }
    return sum / count;
  };
  EXPECT_NEAR(mean_rank(0), 0.5, 0.05);
  EXPECT_LT(mean_rank(3), 0.35);
}

}  // namespace
}  // namespace foretime::worker
