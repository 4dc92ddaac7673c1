#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "data/dataset/group_files.h"
#include "models/model.h"
#include "models/sparse/plan_tensors.h"
#include "plans/plan_source.h"
#include "tests/models/small_models.h"
#include "tests/support/paths.h"
#include "tests/support/synthetic_graph.h"

/// Shared plans against node × candidate plans, the slow twin: scores and gradients in double precision.
namespace foretime::models {
namespace {

using configs::ModelSettings;
using data::Group;

constexpr double kSharingTolerance = 1e-9;

/// `variant`: of tests/models/small_models.h.
ModelSettings settings_of(const std::string& variant, int64_t layers) {
  using P = configs::ReadoutPart;
  auto settings = testing::variant_settings(
      variant,
      {P::mean, P::max, P::normalized_sum, P::configurable_normalized_sum, P::configurable_max, P::decision_sum});
  settings.layers = layers;
  settings.l2_normalize = settings.l2_normalize || variant == "sage";
  return settings;
}

std::shared_ptr<CostModel> fitted(const ModelSettings& settings, const Group& group) {
  return testing::fitted_model(settings, {&group});
}

/// Scores, then the gradients of their sum with unequal weights.
std::vector<torch::Tensor> scores_and_gradients(CostModel& model, const plans::MessagePlan& plan) {
  model.zero_grad();
  const auto scores = model.score(to_tensors(plan, {.dtype = torch::kDouble}));
  (scores * torch::cos(torch::arange(scores.numel(), torch::kDouble))).sum().backward();
  std::vector<torch::Tensor> result = {scores.detach()};
  for (const auto& parameter : model.parameters()) result.push_back(parameter.grad().clone());
  return result;
}

plans::MessagePlan plan_of(const Group& group, const std::vector<std::vector<int64_t>>& draws,
                           plans::PlanRequest request, plans::Sharing sharing) {
  request.sharing = sharing;
  const auto source = plans::make_plan_source(group, request);
  plans::PlanBuilder builder(request);
  for (const auto& draw : draws) builder.add(group, draw, source);
  return std::move(builder).build();
}

void expect_equal(const std::vector<torch::Tensor>& found, const std::vector<torch::Tensor>& expected,
                  const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const double scale = std::max(1.0, expected[i].abs().max().item<double>());
    EXPECT_LT((found[i] - expected[i]).abs().max().item<double>(), kSharingTolerance * scale)
        << what << ", tensor " << i;
  }
}

void expect_sharing_changes_nothing(const Group& group, const std::vector<std::vector<int64_t>>& draws,
                                    const std::string& type, int64_t layers) {
  const auto model = fitted(settings_of(type, layers), group);
  const auto request = model->plan_request();
  const auto plain = plan_of(group, draws, request, plans::Sharing::none);
  const auto expected = scores_and_gradients(*model, plain);
  for (const auto sharing : {plans::Sharing::states, plans::Sharing::invariant}) {
    const auto shared = plan_of(group, draws, request, sharing);
    const auto what = fmt::format("{}, {}, {} layers, {}", group.name, type, layers,
                                  sharing == plans::Sharing::states ? "states" : "invariant");
    for (size_t l = 0; l < shared.levels.size(); ++l) {
      EXPECT_LE(shared.levels[l]->states(), plain.levels[l]->states()) << what;
    }
    expect_equal(scores_and_gradients(*model, shared), expected, what);
  }
}

TEST(Sharing, ChangesNeitherScoresNorGradientsOfSyntheticGraphs) {
  for (const uint64_t seed : {1, 2, 3}) {
    const auto group = foretime::testing::synthesize_layout_group({60, 14, 40, seed}, "synthetic_small");
    for (const auto& type : testing::variant_names()) {
      for (const int64_t layers : {0, 1, 3}) {
        // Two draws of one group that overlap, and a configuration twice.
        expect_sharing_changes_nothing(group, {{0, 7, 3, 39, 7, 12}, {5, 3}}, type, layers);
      }
    }
  }
}

TEST(Sharing, HoldsBeyondTheClassLimit) {
  const auto group = foretime::testing::synthesize_layout_group({300, 200, 30, 4}, "synthetic_dense");
  expect_sharing_changes_nothing(group, {{0, 1, 2, 3, 4, 5, 6, 7}}, "sage", 4);
}

TEST(Sharing, ChangesNothingOnRealGraphs) {
  FORETIME_NEEDS_DATA();
  for (const auto* folder : {"xla/default/train", "xla/default/valid", "xla/default/test", "xla/random/train",
                             "xla/random/test", "nlp/random/test"}) {
    const auto headers = data::list_groups({std::string("tpugraphs/npz/layout/") + folder}, testing::data_dir(),
                                           data::CandidateKind::layout);
    ASSERT_FALSE(headers.empty());
    for (const auto& header : headers) {
      const auto group = data::load_group(header);
      std::vector<std::vector<int64_t>> draws(2);
      std::mt19937 random(5);
      for (auto& draw : draws) {
        for (int i = 0; i < 5; ++i) {
          draw.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(group.candidates)));
        }
      }
      for (const auto* type : {"gcn", "sage", "residual_gcn", "gat", "sage_max"})
        expect_sharing_changes_nothing(group, draws, type, 2);
      expect_sharing_changes_nothing(group, draws, "sage", 3);
    }
  }
}

TEST(Sharing, ChangesNothingOnTheLargestRealGraph) {
  FORETIME_NEEDS_DATA();
  for (const auto& header :
       data::list_groups({"tpugraphs/npz/layout/nlp/default"}, testing::data_dir(), data::CandidateKind::layout)) {
    expect_sharing_changes_nothing(data::load_group(header), {{0, 500, 1000}}, "residual_gcn", 2);
  }
}

/// All candidates of a whole graph in one plan equal those scored a few at a time without sharing.
TEST(Sharing, HoldsForAllCandidatesAtOnce) {
  FORETIME_NEEDS_DATA();
  const auto headers = data::list_groups({"tpugraphs/npz/layout/xla/default/train/unet3d.npz"}, testing::data_dir(),
                                         data::CandidateKind::layout);
  const auto group = data::load_group(headers.at(0));
  const auto model = fitted(settings_of("residual_gcn", 2), group);
  torch::NoGradGuard no_gradient;
  std::vector<int64_t> all(static_cast<size_t>(group.candidates));
  std::iota(all.begin(), all.end(), 0);
  const auto plan = plan_of(group, {all}, model->plan_request(), plans::Sharing::states);
  const auto scores = model->score(to_tensors(plan, {.dtype = torch::kDouble, .gradients = false}));
  EXPECT_LT(plan.levels.back()->states(), group.graphs.nodes() * group.candidates / 100);
  for (const int64_t first : {int64_t{0}, group.candidates / 2, group.candidates - 4}) {
    const auto few =
        plan_of(group, {{first, first + 1, first + 2, first + 3}}, model->plan_request(), plans::Sharing::none);
    const auto expected = model->score(to_tensors(few, {.dtype = torch::kDouble}));
    EXPECT_TRUE(torch::allclose(scores.narrow(0, first, 4), expected, kSharingTolerance, kSharingTolerance)) << first;
  }
}

TEST(Sharing, OfAPartEqualsThePartAsAGroup) {
  const auto group = foretime::testing::synthesize_layout_group({80, 20, 30, 6}, "synthetic_part");
  const auto model = fitted(settings_of("sage", 2), group);
  std::vector<int32_t> nodes;
  for (int32_t v = 0; v < 80; v += v % 7 == 0 ? 2 : 1) nodes.push_back(v);
  const std::vector<int64_t> draw = {0, 3, 29, 11};
  plans::PlanBuilder builder(model->plan_request());
  builder.add(group, draw, plans::make_plan_source(group, model->plan_request(), {nodes, {}, 1}));
  const auto part = plans::induced_group(group, nodes);
  expect_equal(scores_and_gradients(*model, std::move(builder).build()),
               scores_and_gradients(*model, plan_of(part, {draw}, model->plan_request(), plans::Sharing::none)),
               "part");
}

TEST(Pools, OfThePiecesCombineToTheWhole) {
  const auto group = foretime::testing::synthesize_layout_group({80, 20, 30, 6}, "synthetic_pools");
  auto settings = settings_of("gcn", 2);
  settings.readout = {configs::ReadoutPart::mean,
                      configs::ReadoutPart::sum,
                      configs::ReadoutPart::max,
                      configs::ReadoutPart::configurable_mean,
                      configs::ReadoutPart::configurable_max,
                      configs::ReadoutPart::configurable_sum,
                      configs::ReadoutPart::decision_mean};
  const auto model = fitted(settings, group);
  const auto request = model->plan_request();
  std::vector<int32_t> pool(80);
  for (size_t v = 0; v < pool.size(); ++v) pool[v] = static_cast<int32_t>(v * v % 5);  // 2 and 3 stay empty
  const std::vector<int64_t> draw = {0, 3, 29, 11};
  plans::PlanBuilder builder(request);
  builder.add(group, draw, plans::make_plan_source(group, request, {{}, pool, 5}));
  const auto pools = model->pool(to_tensors(std::move(builder).build(), {.dtype = torch::kDouble}));
  ASSERT_EQ(pools.sizes(), (std::vector<int64_t>{4, 5, model->pool_columns()}));
  const auto whole =
      model->score(to_tensors(plan_of(group, {draw}, request, plans::Sharing::none), {.dtype = torch::kDouble}));
  EXPECT_TRUE(
      torch::allclose(model->score_pools(model->combine_pools(pools)), whole, kSharingTolerance, kSharingTolerance));
  // A weight of 0 leaves a piece out of everything.
  auto weights = torch::ones({4, 5}, torch::kDouble);
  weights.select(1, 1).zero_();
  const auto without = model->combine_pools(pools.index_select(1, torch::tensor({0, 2, 3, 4})));
  EXPECT_TRUE(torch::allclose(model->combine_pools(pools, weights), without, kSharingTolerance, kSharingTolerance));
}

TEST(GraphNorm, FallsBackToThePlainPlan) {
  const auto group = foretime::testing::synthesize_layout_group({60, 14, 40, 1}, "synthetic_norm");
  auto settings = settings_of("gcn", 2);
  settings.norm = configs::Norm::graph;
  const auto model = fitted(settings, group);
  EXPECT_EQ(model->plan_request().sharing, plans::Sharing::none);
  const auto scores = [&](const std::vector<int64_t>& draw) {
    return model->score(
        to_tensors(plan_of(group, {draw}, model->plan_request(), plans::Sharing::none), {.dtype = torch::kDouble}));
  };
  // Statistics are over one candidate's nodes: whoever is beside it does not matter.
  EXPECT_TRUE(torch::allclose(scores({4, 9, 1}).slice(0, 1, 2), scores({9}), 1e-12, 1e-12));
  auto shared = model->plan_request();
  EXPECT_THROW(
      model->score(to_tensors(plan_of(group, {{4, 9}}, shared, plans::Sharing::states), {.dtype = torch::kDouble})),
      BrokenInvariant);
  settings.norm = configs::Norm::layer;
  EXPECT_EQ(fitted(settings, group)->plan_request().sharing, plans::Sharing::states);
}

}  // namespace
}  // namespace foretime::models
