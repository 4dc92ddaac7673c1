#include "worker/segments/segment_training.h"

#include <numeric>

#include <gtest/gtest.h>

#include "base/counter_random.h"
#include "configs/load.h"
#include "data/graphs/group.h"
#include "models/model.h"
#include "tests/support/scratch.h"
#include "tests/worker/segments/segmented.h"
#include "worker/evaluation/scoring.h"

namespace foretime::worker {
namespace {

using testing::SegmentedRun;

void expect_close(const torch::Tensor& found, const torch::Tensor& expected, double tolerance = 1e-4) {
  const double most = (found.to(torch::kDouble) - expected.to(torch::kDouble)).abs().max().item<double>();
  const double scale = std::max(1.0, expected.abs().max().item<double>());
  EXPECT_LE(most / scale, tolerance) << "found " << found << "\nexpected " << expected;
}

/// The residual GCN of testing::segmented_settings once more, in plain LibTorch and float64: one candidate at a time,
/// dense adjacency, readout [mean, normalized_sum, configurable_max]. Its parameters are leaves with gradients.
class DenseReference {
 public:
  DenseReference(const configs::ModelSettings& settings, const models::CostModel& model) : settings_(settings) {
    for (const auto& item : model.named_parameters()) {
      values_[item.key()] = item.value().detach().to(torch::kDouble).requires_grad_();
    }
    for (const auto& item : model.named_buffers()) values_[item.key()] = item.value().to(torch::kDouble);
  }

  /// Final states of the subgraph that `nodes` induce: [nodes, hidden].
  torch::Tensor states(const data::Group& group, const std::vector<int64_t>& nodes, int64_t candidate) {
    const auto& graphs = group.graphs;
    const auto count = static_cast<int64_t>(nodes.size());
    std::map<int64_t, int64_t> local;
    for (int64_t i = 0; i < count; ++i) local[nodes[static_cast<size_t>(i)]] = i;
    const auto features =
        torch::from_blob(const_cast<float*>(graphs.node_features.data()), {graphs.nodes(), graphs.feature_count})
            .to(torch::kDouble)
            .index_select(0, torch::tensor(nodes));
    std::vector<int64_t> types;
    for (const int64_t v : nodes) types.push_back(graphs.node_types[v]);
    auto layouts = torch::zeros({count, data::kLayoutFeatures}, torch::kDouble);
    for (int64_t j = 0; j < group.layout.configurable(); ++j) {
      const auto at = local.find(group.layout.nodes[j]);
      if (at == local.end()) continue;
      const int64_t row = group.layout.row_ptr[j] + group.layout.codes[candidate * group.layout.configurable() + j];
      for (int64_t f = 0; f < data::kLayoutFeatures; ++f) {
        layouts[at->second][f] =
            settings_.features.layout_scale * static_cast<double>(group.layout.rows[row * data::kLayoutFeatures + f]);
      }
    }
    auto adjacency = torch::eye(count, torch::kDouble);
    for (int64_t e = 0; e < graphs.edges(); ++e) {
      const auto u = local.find(graphs.edge_source[e]), v = local.find(graphs.edge_target[e]);
      if (u == local.end() || v == local.end()) continue;
      adjacency[u->second][v->second] += 1.0;
      adjacency[v->second][u->second] += 1.0;
    }
    const auto root = adjacency.sum(1).rsqrt();
    adjacency = root.unsqueeze(1) * adjacency * root.unsqueeze(0);

    const auto scaled =
        (features - values_.at("encoder.node_features.offset")) * values_.at("encoder.node_features.scale");
    const auto embedded = values_.at("encoder.node_types.weight").index_select(0, torch::tensor(types));
    auto x = dense("encoder.dense", torch::cat({layouts, scaled, embedded}, 1), settings_.encoder_layers, true);
    for (int64_t i = 0; i < settings_.layers; ++i) {
      const auto mixed = adjacency.matmul(torch::cat({layouts, x}, 1));
      x = x + act(dense("layers." + std::to_string(i) + ".mlp", mixed, 2, false));
    }
    return x;
  }

  torch::Tensor head(const data::Group& group, const torch::Tensor& states) {
    const auto sum = states.sum(0);
    std::vector<int64_t> configurable(group.layout.nodes.begin(), group.layout.nodes.end());
    const auto largest = std::get<0>(states.index_select(0, torch::tensor(configurable)).max(0));
    const auto pooled = torch::cat({states.mean(0), sum / sum.norm(), largest});
    return dense("head", pooled.unsqueeze(0), settings_.head_layers, false)[0][0];
  }

  std::map<std::string, torch::Tensor>& values() { return values_; }

 private:
  torch::Tensor dense(const std::string& name, torch::Tensor x, int64_t layers, bool activate_last) {
    for (int64_t i = 0; i < layers; ++i) {
      const auto layer = name + "." + std::to_string(i);
      x = x.matmul(values_.at(layer + ".weight").t());
      if (values_.contains(layer + ".bias")) x = x + values_.at(layer + ".bias");
      if (i + 1 < layers || activate_last) x = act(x);
    }
    return x;
  }
  torch::Tensor act(const torch::Tensor& x) const { return torch::leaky_relu(x, settings_.leaky_slope); }

  configs::ModelSettings settings_;
  std::map<std::string, torch::Tensor> values_;
};

class SegmentTrainingTest : public ::testing::Test {
 protected:
  configs::Settings settings_with(const std::string& stale, double keep) const {
    auto settings = testing::segmented_settings(scratch_.path());
    settings.segments.stale = configs::choice_named<configs::Stale>(stale).value();
    settings.segments.keep_probability = keep;
    return settings;
  }

  foretime::testing::Scratch scratch_;
};
using SegmentEvaluation = SegmentTrainingTest;

TEST_F(SegmentTrainingTest, GraphsOfOneSegmentAreScoredAsEver) {
  for (const auto* stale : {"scores", "pools", "full_forward", "none"}) {
    auto settings = settings_with(stale, 0.5);
    settings.sampler.max_segment_nodes = 90;
    SegmentedRun run(settings);
    plans::PlanBuilder builder(run.model->plan_request());
    builder.add(run.store.get(0).group, std::vector<int64_t>{3, 1, 4});
    builder.add(run.store.get(1).group, std::vector<int64_t>{1, 5});
    const auto plain = run.model->score(models::to_tensors(std::move(builder).build()));
    EXPECT_TRUE(torch::equal(run.score({run.draw(0, {3, 1, 4}, 0), run.draw(1, {1, 5}, 0)}), plain)) << stale;
  }
}

TEST_F(SegmentTrainingTest, ScoresOfAMixedBatchComeFromEachGraphsOwnCandidates) {
  SegmentedRun run(settings_with("scores", 1.0));
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

TEST_F(SegmentTrainingTest, AbsentScoresAreMadeUpForByTheLiveOne) {
  SegmentedRun run(settings_with("scores", 1.0));
  run.score({run.draw(0, {1, 2}, 0)});
  // Candidate 1 has segment 0's score, candidate 7 has none.
  const auto scores = run.score({run.draw(0, {1, 7}, 2, 1, 1)}).detach();
  const auto first = run.segment_scores(0, {1, 7}, 0), live = run.segment_scores(0, {1, 7}, 2);
  expect_close(scores, torch::stack({first[0] + 2 * live[0], 3 * live[1]}));
}

TEST_F(SegmentTrainingTest, NoneIsTheLiveSegmentForAll) {
  SegmentedRun run(settings_with("none", 0.5));
  run.score({run.draw(0, {1, 2}, 0)});
  expect_close(run.score({run.draw(0, {1, 2}, 2, 1, 1)}).detach(), 3 * run.segment_scores(0, {1, 2}, 2));
}

TEST_F(SegmentTrainingTest, GradientsReachTheLiveSegmentOnly) {
  SegmentedRun run(settings_with("scores", 1.0));
  run.score({run.draw(0, {1, 2}, 0)});
  run.score({run.draw(0, {1, 2}, 1, 1, 1)});
  run.score({run.draw(0, {1, 2}, 2, 1, 2)}).sum().backward();
  std::map<std::string, torch::Tensor> found;
  for (const auto& item : run.model->named_parameters()) found[item.key()] = item.value().grad().clone();
  run.model->zero_grad();
  run.model->score(run.segment_plan(0, {1, 2}, 2)).sum().backward();
  for (const auto& item : run.model->named_parameters()) expect_close(found[item.key()], item.value().grad());
}

TEST_F(SegmentTrainingTest, PoolsOfTheOthersComeFromThePast) {
  SegmentedRun run(settings_with("pools", 1.0));
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
TEST_F(SegmentTrainingTest, FullForwardEqualsItsReference) {
  SegmentedRun run(settings_with("full_forward", 1.0));
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

    DenseReference reference(run.settings.model, *run.model);
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

TEST_F(SegmentTrainingTest, FullForwardNeedsSharedStates) {
  auto settings = settings_with("full_forward", 1.0);
  settings.model.sharing = configs::StateSharing::none;
  EXPECT_THROW(SegmentedRun{settings}, configs::SettingsError);
}

TEST_F(SegmentTrainingTest, ModelsThatShareNothingGetTheSameScores) {
  auto settings = settings_with("scores", 1.0);
  SegmentedRun shared(settings);
  settings.model.sharing = configs::StateSharing::none;
  SegmentedRun plain(settings);
  for (int64_t live = 0; live < 3; ++live) {
    expect_close(plain.score({plain.draw(0, {3, 1}, live, 1, live)}).detach(),
                 shared.score({shared.draw(0, {3, 1}, live, 1, live)}).detach());
  }
}

TEST_F(SegmentTrainingTest, ExpectedScoresAreUnbiased) {
  SegmentedRun run(settings_with("scores", 0.5));
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

TEST_F(SegmentTrainingTest, TheHeadSeesAllSegmentsFresh) {
  for (const auto* stale : {"scores", "pools", "full_forward", "none"}) {
    SegmentedRun run(settings_with(stale, 0.5));
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

TEST_F(SegmentEvaluation, SumsAndCombinesAllSegments) {
  const std::vector<int64_t> candidates = {7, 2, 9, 0};
  for (const auto* stale : {"scores", "pools"}) {
    SegmentedRun run(settings_with(stale, 0.5));
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

/// Requests: candidates, segments, the fresh ones from … to, keep probability, key.
TEST(SegmentMix, PublishedFactorWhereAllPastValuesAreThere) {
  const auto mix = mix_segments({1, 9, 4, 5, 0.5, 1}, [](int64_t, int64_t) { return true; });
  EXPECT_FLOAT_EQ(mix.fresh[0].item<float>(), 8 / 2.0F + 1);
  EXPECT_EQ(mix.stale[0][4].item<float>(), 0) << "the fresh segment has no stale value";
}

TEST(SegmentMix, AbsentValuesAreMadeUpForCandidateByCandidate) {
  // Candidate 0 has no past values, candidate 1 all three, candidate 2 one of them.
  const auto mix =
      mix_segments({3, 4, 0, 1, 1.0, 1}, [](int64_t c, int64_t s) { return c == 1 || (c == 2 && s == 3); });
  EXPECT_TRUE(torch::equal(mix.fresh, torch::tensor({4.0F, 1.0F, 3.0F})));
  EXPECT_TRUE(torch::equal(
      mix.stale, torch::tensor({{0.0F, 0.0F, 0.0F, 0.0F}, {0.0F, 1.0F, 1.0F, 1.0F}, {0.0F, 0.0F, 0.0F, 1.0F}})));
}

TEST(SegmentMix, SeveralFreshSegmentsShareWhatIsMissing) {
  const auto mix = mix_segments({1, 6, 2, 5, 1.0, 1}, [](int64_t, int64_t s) { return s != 0; });
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
      const auto mix = mix_segments({1, kSegments, live, live + 1, keep, key}, [](int64_t, int64_t) { return true; });
      sum += value[live] * static_cast<double>(mix.fresh.data_ptr<float>()[0]);
      for (int64_t s = 0; s < kSegments; ++s) sum += value[s] * static_cast<double>(mix.stale.data_ptr<float>()[s]);
    }
    EXPECT_NEAR(sum / kDraws, 6.5, 0.2) << "keep probability " << keep;
  }
}

TEST(SegmentMix, DrawsDependOnTheKeyAlone) {
  const MixRequest request{4, 8, 1, 2, 0.5, 77};
  const auto all = [](int64_t, int64_t) { return true; };
  EXPECT_TRUE(torch::equal(mix_segments(request, all).stale, mix_segments(request, all).stale));
  auto other = request;
  other.key = 78;
  EXPECT_FALSE(torch::equal(mix_segments(request, all).stale, mix_segments(other, all).stale));
}

}  // namespace
}  // namespace foretime::worker
