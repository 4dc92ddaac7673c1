#include "worker/segments/segment_training.h"

#include <numeric>

#include <gtest/gtest.h>

#include "configs/load.h"
#include "tests/support/scratch.h"
#include "tests/worker/dense_reference.h"
#include "tests/worker/segments/segmented.h"
#include "worker/evaluation/segment_evaluation.h"

namespace foretime::worker {
namespace {

using foretime::testing::Scratch;
using testing::SegmentedRun;

void expect_close(const torch::Tensor& found, const torch::Tensor& expected, double tolerance = 1e-4) {
  const double most = (found.to(torch::kDouble) - expected.to(torch::kDouble)).abs().max().item<double>();
  const double scale = std::max(1.0, expected.abs().max().item<double>());
  EXPECT_LE(most / scale, tolerance) << "found " << found << "\nexpected " << expected;
}

configs::Settings settings_with(const Scratch& scratch, const std::string& stale, double keep) {
  auto settings = testing::segmented_settings(scratch.path());
  settings.segments.stale = configs::choice_named<configs::Stale>(stale).value();
  settings.segments.keep_probability = keep;
  return settings;
}

TEST(SegmentTraining, GraphsOfOneSegmentAreScoredAsEver) {
  const Scratch scratch;
  for (const auto* stale : {"scores", "pools", "full_forward", "none"}) {
    auto settings = settings_with(scratch, stale, 0.5);
    settings.sampler.max_segment_nodes = 90;
    SegmentedRun run(settings);
    plans::PlanBuilder builder(run.model->plan_request());
    builder.add(run.store.get(0).group, std::vector<int64_t>{3, 1, 4});
    builder.add(run.store.get(1).group, std::vector<int64_t>{1, 5});
    const auto plain = run.model->score(models::to_tensors(std::move(builder).build()));
    EXPECT_TRUE(torch::equal(run.score({run.draw(0, {3, 1, 4}, 0), run.draw(1, {1, 5}, 0)}), plain)) << stale;
  }
}

TEST(SegmentTraining, ScoresOfAMixedBatchComeFromEachGraphsOwnCandidates) {
  const Scratch scratch;
  SegmentedRun run(settings_with(scratch, "scores", 1.0));
  // The graphs share candidate ids, in another order: every past score must come from its own graph and candidate.
  const std::vector<int64_t> a = {3, 1, 4}, b = {4, 0, 3};
  for (int64_t live = 0; live < 3; ++live) {
    run.score({run.draw(0, a, live, 1, live), run.draw(1, b, live % 2, 1, live)});
  }
  for (int64_t segment = 0; segment < 3; ++segment) {
    const auto alone = run.segment_scores(0, a, segment);
    for (size_t i = 0; i < a.size(); ++i) {
      const auto* row = run.segments->history().find({0, segment, a[i]});
      ASSERT_NE(row, nullptr);
      EXPECT_NEAR(*row, alone[static_cast<int64_t>(i)].item<float>(), 1e-4);
    }
    EXPECT_EQ(run.segments->history().find({0, segment, 0}), nullptr) << "candidate 0 was drawn of the other graph";
  }
  const auto scores = run.score({run.draw(0, a, 1, 5, 9), run.draw(1, b, 0, 6, 9)});
  auto of_a = torch::zeros({3}), of_b = torch::zeros({3});
  for (int64_t s = 0; s < 3; ++s) of_a += run.segment_scores(0, a, s);
  for (int64_t s = 0; s < 2; ++s) of_b += run.segment_scores(1, b, s);
  expect_close(scores.detach(), torch::cat({of_a, of_b}));
}

TEST(SegmentTraining, AbsentScoresAreMadeUpForByTheLiveOne) {
  const Scratch scratch;
  SegmentedRun run(settings_with(scratch, "scores", 1.0));
  run.score({run.draw(0, {1, 2}, 0)});
  // Candidate 1 has segment 0's score, candidate 7 has none.
  const auto scores = run.score({run.draw(0, {1, 7}, 2, 1, 1)}).detach();
  const auto first = run.segment_scores(0, {1, 7}, 0), live = run.segment_scores(0, {1, 7}, 2);
  expect_close(scores, torch::stack({first[0] + 2 * live[0], 3 * live[1]}));
}

TEST(SegmentTraining, NoneIsTheLiveSegmentForAll) {
  const Scratch scratch;
  SegmentedRun run(settings_with(scratch, "none", 0.5));
  run.score({run.draw(0, {1, 2}, 0)});
  expect_close(run.score({run.draw(0, {1, 2}, 2, 1, 1)}).detach(), 3 * run.segment_scores(0, {1, 2}, 2));
}

TEST(SegmentTraining, GradientsReachTheLiveSegmentOnly) {
  const Scratch scratch;
  SegmentedRun run(settings_with(scratch, "scores", 1.0));
  run.score({run.draw(0, {1, 2}, 0)});
  run.score({run.draw(0, {1, 2}, 1, 1, 1)});
  run.score({run.draw(0, {1, 2}, 2, 1, 2)}).sum().backward();
  std::map<std::string, torch::Tensor> found;
  for (const auto& item : run.model->named_parameters()) found[item.key()] = item.value().grad().clone();
  run.model->zero_grad();
  run.model->score(run.segment_plan(0, {1, 2}, 2)).sum().backward();
  for (const auto& item : run.model->named_parameters()) expect_close(found[item.key()], item.value().grad());
}

TEST(SegmentTraining, PoolsOfTheOthersComeFromThePast) {
  const Scratch scratch;
  SegmentedRun run(settings_with(scratch, "pools", 1.0));
  const std::vector<int64_t> candidates = {3, 1, 4};
  for (int64_t live = 0; live < 3; ++live) run.score({run.draw(0, candidates, live, 1, live)});
  std::vector<torch::Tensor> pools;
  for (int64_t s = 0; s < 3; ++s) pools.push_back(run.segment_pools(0, candidates, s));
  const auto expected = run.model->score_pools(run.model->combine_pools(torch::cat(pools, 1)));
  expect_close(run.score({run.draw(0, candidates, 1, 1, 5)}).detach(), expected.detach());

  // A mixed batch: a graph whose past is not there, and one of a single segment by its size.
  const auto scores = run.score({run.draw(0, candidates, 1, 1, 6), run.draw(1, {5}, 1, 1, 6)}).detach();
  const auto own = run.segment_pools(1, {5}, 1);
  const auto doubled = run.model->combine_pools(own, torch::full({1, 1}, 2.0F));
  expect_close(scores, torch::cat({expected, run.model->score_pools(doubled)}).detach());
}

/// The published pass: all states of the whole graph without gradient, those of the live segment with it, chosen node
/// by node, then pooled.
TEST(SegmentTraining, FullForwardEqualsItsReference) {
  const Scratch scratch;
  SegmentedRun run(settings_with(scratch, "full_forward", 1.0));
  const auto& group = run.store.get(0).group;
  const auto cut = data::make_segments(group, segment_rule(run.settings));
  std::vector<int64_t> all(static_cast<size_t>(group.graphs.nodes()));
  std::iota(all.begin(), all.end(), 0);
  const std::vector<int64_t> candidates = {3, 1, 4};
  const auto weights = torch::tensor({1.0, -0.5, 2.0}, torch::kDouble);
  for (int64_t live = 0; live < cut.count(); ++live) {
    const auto scores = run.score({run.draw(0, candidates, live)});
    run.model->zero_grad();
    (scores * weights.to(torch::kFloat)).sum().backward();

    testing::DenseReference reference(run.settings.model, *run.model);
    const std::vector<int64_t> nodes(cut[live].begin(), cut[live].end());
    std::vector<torch::Tensor> expected;
    for (const int64_t c : candidates) {
      const auto states = reference.states(group, all, c)
                              .detach()
                              .index_copy(0, torch::tensor(nodes), reference.states(group, nodes, c));
      expected.push_back(reference.head(group, states));
    }
    (torch::stack(expected) * weights).sum().backward();
    expect_close(scores.detach(), torch::stack(expected).detach());
    for (const auto& item : run.model->named_parameters()) {
      expect_close(item.value().grad(), reference.values().at(item.key()).grad(), 1e-3);
    }
  }
}

TEST(SegmentTraining, FullForwardNeedsSharedStates) {
  const Scratch scratch;
  auto settings = settings_with(scratch, "full_forward", 1.0);
  settings.model.sharing = configs::StateSharing::none;
  EXPECT_THROW(SegmentedRun{settings}, configs::SettingsError);
}

TEST(SegmentTraining, ModelsThatShareNothingGetTheSameScores) {
  const Scratch scratch;
  auto settings = settings_with(scratch, "scores", 1.0);
  SegmentedRun shared(settings);
  settings.model.sharing = configs::StateSharing::none;
  SegmentedRun plain(settings);
  for (int64_t live = 0; live < 3; ++live) {
    expect_close(plain.score({plain.draw(0, {3, 1}, live, 1, live)}).detach(),
                 shared.score({shared.draw(0, {3, 1}, live, 1, live)}).detach());
  }
}

TEST(SegmentTraining, ExpectedScoresAreUnbiased) {
  const Scratch scratch;
  SegmentedRun run(settings_with(scratch, "scores", 0.5));
  const std::vector<int64_t> candidates = {2, 6};
  const torch::NoGradGuard no_grad;
  for (int64_t live = 0; live < 3; ++live) run.score({run.draw(0, candidates, live, 1, live)});
  auto expected = torch::zeros({2}), sum = torch::zeros({2}, torch::kDouble);
  for (int64_t s = 0; s < 3; ++s) expected += run.segment_scores(0, candidates, s);
  constexpr int kDraws = 1500;
  for (int i = 0; i < kDraws; ++i) {
    const auto graph =
        run.segments->choose({0, 1.0, candidates, 0, static_cast<uint64_t>(i) * 7919 + 1, 10 + i}, run.store.get(0));
    sum += run.score({graph}).to(torch::kDouble);
  }
  expect_close(sum / kDraws, expected, 0.1);
}

TEST(SegmentTraining, TheHeadSeesAllSegmentsFresh) {
  const Scratch scratch;
  for (const auto* stale : {"scores", "pools", "full_forward", "none"}) {
    SegmentedRun run(settings_with(scratch, stale, 0.5));
    const std::vector<int64_t> a = {3, 1}, b = {0};
    run.model->train();
    const auto scores = run.segments->score_for_head(*run.model, {run.draw(0, a, 1), run.draw(1, b, 0)}, run.store);
    EXPECT_TRUE(run.model->is_training());
    scores.sum().backward();
    for (const auto& item : run.model->named_parameters()) {
      EXPECT_EQ(item.value().grad().defined(), is_head_parameter(item.key())) << item.key();
    }
    // What evaluation says of the same candidates is the same thing.
    const auto scorer = scorer_for(run.model, {.settings = run.settings, .max_states = 100000});
    std::vector<double> expected = scorer(run.store.get(0), a).scores;
    expected.push_back(scorer(run.store.get(1), b).scores[0]);
    expect_close(scores.detach(), torch::tensor(expected, torch::kDouble));
  }
}

TEST(SegmentEvaluation, SumsAndCombinesAllSegments) {
  const Scratch scratch;
  const std::vector<int64_t> candidates = {7, 2, 9, 0};
  for (const auto* stale : {"scores", "pools"}) {
    SegmentedRun run(settings_with(scratch, stale, 0.5));
    run.model->eval();
    auto sum = torch::zeros({4});
    std::vector<torch::Tensor> pools;
    for (int64_t s = 0; s < 3; ++s) {
      sum += run.segment_scores(0, candidates, s);
      pools.push_back(run.segment_pools(0, candidates, s));
    }
    const auto expected = std::string(stale) == "scores"
                              ? sum
                              : run.model->score_pools(run.model->combine_pools(torch::cat(pools, 1))).detach();
    for (const int64_t at_once : {1, 100000}) {  // states
      int64_t scored = 0;
      const auto scorer = scorer_for(
          run.model, {.settings = run.settings, .max_states = at_once, .on_scored = [&](int64_t n) { scored += n; }});
      const auto found = scorer(run.store.get(0), candidates);
      expect_close(torch::tensor(found.scores, torch::kDouble), expected);
      EXPECT_EQ(scored, 4);
      const std::vector<int64_t> again = {2, 7, 7, 2};
      const auto repeated = scorer(run.store.get(0), again);
      const std::vector<double> twice = {found.scores[1], found.scores[0], found.scores[0], found.scores[1]};
      expect_close(torch::tensor(repeated.scores, torch::kDouble), torch::tensor(twice, torch::kDouble));
    }
  }
}

}  // namespace
}  // namespace foretime::worker
