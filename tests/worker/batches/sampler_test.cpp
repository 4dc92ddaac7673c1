#include "worker/batches/sampler.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "tests/worker/samples.h"

namespace foretime::worker {
namespace {

using testing::SampleRun;

std::vector<Sample> all_ranks(const SampleRun& run, const Sampler& sampler, int64_t batch) {
  std::vector<Sample> entries;
  for (int rank = 0; rank < run.ranks; ++rank) {
    for (auto& entry : sampler.samples(batch, rank, run.store)) entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.entry, a.candidates) < std::tie(b.entry, b.candidates);
  });
  return entries;
}

TEST(Sampler, SeveralRanksDrawWhatOneDraws) {
  const SampleRun one(1), two(2), three(3);
  const Sampler a(one.plan, one.settings.sampler, 1), b(two.plan, two.settings.sampler, 1),
      c(three.plan, three.settings.sampler, 1);
  for (int64_t batch = 0; batch < 12; ++batch) {
    const auto expected = all_ranks(one, a, batch);
    for (const auto& other : {all_ranks(two, b, batch), all_ranks(three, c, batch)}) {
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
  const Sampler sampler(run.plan, run.settings.sampler, 1);
  for (int64_t batch = 0; batch < 2 * run.plan.batches_per_epoch; ++batch) {
    double sum = 0;
    for (const auto& entry : all_ranks(run, sampler, batch)) sum += entry.weight;
    EXPECT_NEAR(sum, 1.0, 1e-12);
  }
}

TEST(Sampler, CandidatesAreDistinctTrainingCandidates) {
  for (const double bias : {0.0, 2.0}) {
    SampleRun run(1, bias);
    const Sampler sampler(run.plan, run.settings.sampler, 1);
    for (int64_t batch = 0; batch < 6; ++batch) {
      for (const auto& entry : sampler.samples(batch, 0, run.store)) {
        const auto& train = run.store.get(entry.entry).train;
        const std::set<int64_t> seen(entry.candidates.begin(), entry.candidates.end());
        EXPECT_EQ(seen.size(), entry.candidates.size());
        EXPECT_EQ(static_cast<int64_t>(seen.size()),
                  std::min<int64_t>(run.settings.sampler.candidates_per_group, static_cast<int64_t>(train.size())));
        for (const int64_t c : seen) EXPECT_TRUE(std::binary_search(train.begin(), train.end(), c));
      }
    }
  }
}

TEST(Sampler, ZeroCandidatesAreAllOfThem) {
  for (const double bias : {0.0, 2.0}) {
    auto settings = testing::sample_settings(bias);
    settings.sampler.candidates_per_group = 0;
    const testing::RunParts run(settings, 1);
    const Sampler sampler(run.plan, run.settings.sampler, 1);
    int64_t draws = 0;
    for (int64_t batch = 0; batch < run.plan.batches_per_epoch; ++batch) {
      for (const auto& entry : sampler.samples(batch, 0, run.store)) {
        auto drawn = entry.candidates;
        std::sort(drawn.begin(), drawn.end());
        EXPECT_EQ(drawn, run.store.get(entry.entry).train);
        ++draws;
      }
    }
    EXPECT_GT(draws, 0);
  }
}

TEST(Sampler, AnEpochHasEveryDrawOfEveryGroupOnce) {
  const SampleRun run(1);
  const Sampler sampler(run.plan, run.settings.sampler, 1);
  std::map<int64_t, int64_t> draws;
  std::map<int64_t, std::set<int64_t>> candidates;
  for (int64_t batch = 0; batch < run.plan.batches_per_epoch; ++batch) {
    for (const auto& entry : sampler.samples(batch, 0, run.store)) {
      ++draws[entry.entry];
      candidates[entry.entry].insert(entry.candidates.begin(), entry.candidates.end());
    }
  }
  for (const int64_t entry : run.dataset.with_role(sharding::Role::train)) {
    EXPECT_EQ(draws[entry], run.settings.sampler.samples_per_group);
    // Draws of an epoch do not repeat a candidate before all were drawn.
    const auto expected = std::min<size_t>(
        run.store.get(entry).train.size(),
        static_cast<size_t>(run.settings.sampler.samples_per_group * run.settings.sampler.candidates_per_group));
    EXPECT_EQ(candidates[entry].size(), expected);
  }
}

TEST(Sampler, EpochsSeedsAndBiasChangeTheDraws) {
  SampleRun run(1);
  const Sampler sampler(run.plan, run.settings.sampler, 1), other(run.plan, run.settings.sampler, 2);
  EXPECT_NE(sampler.samples(0, 0, run.store)[0].candidates, other.samples(0, 0, run.store)[0].candidates);
  EXPECT_NE(sampler.samples(0, 0, run.store)[0].candidates,
            sampler.samples(run.plan.batches_per_epoch, 0, run.store)[0].candidates);
}

TEST(Sampler, ABiasPrefersFastCandidates) {
  SampleRun run(1, 1.0);
  const auto mean_rank = [&](double bias) {
    run.settings.sampler.fast_bias = bias;
    const Sampler sampler(run.plan, run.settings.sampler, 1);
    double sum = 0, count = 0;
    for (int64_t batch = 0; batch < 20; ++batch) {
      for (const auto& entry : sampler.samples(batch, 0, run.store)) {
        const auto& loaded = run.store.get(entry.entry);
        for (const int64_t c : entry.candidates) {
          const auto at = std::lower_bound(loaded.train.begin(), loaded.train.end(), c) - loaded.train.begin();
          sum += loaded.speed_rank[static_cast<size_t>(at)];
          count += 1;
        }
      }
    }
    return sum / count;
  };
  EXPECT_NEAR(mean_rank(0), 0.5, 0.05);
  EXPECT_LT(mean_rank(3), 0.35);
}

}  // namespace
}  // namespace foretime::worker
