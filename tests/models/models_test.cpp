#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/check.h"
#include "models/model.h"
#include "models/sparse/plan_tensors.h"
#include "tests/data/groups.h"
#include "tests/models/slow_model.h"
#include "tests/models/small_models.h"
#include "tests/support/gradcheck.h"

namespace foretime::models {
namespace {

using configs::ModelSettings;
using data::CandidateKind;
using data::Group;
using testing::fitted_model;
using testing::plan_of;

// Plans hold their weights in single precision, so the twin's, made in double, differ by rounding whatever the model's
// type.
constexpr double kRelative = 1e-6, kAbsolute = 1e-8;

/// `variant`: of tests/models/small_models.h.
ModelSettings settings_of_type(const std::string& variant, CandidateKind kind) {
  using P = configs::ReadoutPart;
  if (kind == CandidateKind::layout)
    return testing::variant_settings(variant,
                                     {P::mean, P::normalized_sum, P::configurable_normalized_sum, P::configurable_max});
  return testing::variant_settings(variant, {P::mean, P::max, P::normalized_sum});
}

/// The scores are summed with unequal weights, so that no gradient can hide behind another.
void expect_model_gradients(const std::shared_ptr<CostModel>& model, const PlanTensors& plan) {
  const auto weights = torch::arange(1, plan.group_ptr.back() + 1, torch::kDouble);
  testing::expect_gradients([&] { return (model->score(plan) * weights).sum(); }, testing::leaves_of(*model), 1e-5);
}

class EveryModel : public ::testing::TestWithParam<std::tuple<std::string, CandidateKind, std::string>> {
 protected:
  ModelSettings settings() const {
    auto settings = settings_of_type(std::get<0>(GetParam()), std::get<1>(GetParam()));
    settings.tile_join = configs::choice_named<configs::TileJoin>(std::get<2>(GetParam())).value();
    return settings;
  }
  Group a_ = testing::make_group(std::get<1>(GetParam()), "a", 11);
  Group b_ = in_collection(testing::make_group(std::get<1>(GetParam()), "b", 12));

  static Group in_collection(Group group) {
    group.collection = data::Collection::layout_nlp_default;
    return group;
  }
};

TEST_P(EveryModel, EqualsSlowTwinOneCandidateAtATime) {
  auto options = settings();
  for (const bool log : {false, true}) {
    options.features.log = log;
    options.features.transform = log ? configs::FeatureTransform::zscore : configs::FeatureTransform::minmax;
    const auto model = fitted_model(options, {&a_, &b_});
    const std::vector<int64_t> of_a = {3, 0, 3}, of_b = {1, 2, 4, 0};
    if (options.norm == configs::Norm::batch) model->score(plan_of(*model, {{&b_, of_b}}));  // running statistics
    model->eval();
    const testing::SlowModel slow(options, *model);
    const auto scores = model->score(plan_of(*model, {{&a_, of_a}, {&b_, of_b}}));
    const auto expected = torch::cat({slow.score(a_, of_a), slow.score(b_, of_b)});
    EXPECT_TRUE(torch::allclose(scores, expected, kRelative, kAbsolute)) << scores << expected;
    const auto in_float = [&] {
      model->to(torch::kFloat);
      return model->score(plan_of(*model, {{&a_, of_a}, {&b_, of_b}}, torch::kFloat));
    }();
    EXPECT_TRUE(torch::allclose(in_float.to(torch::kDouble), expected, 1e-3, 1e-4));
  }
}

TEST_P(EveryModel, GradientsEqualFiniteDifferences) {
  const auto model = fitted_model(settings(), {&a_, &b_});
  expect_model_gradients(model, plan_of(*model, {{&a_, {0, 2}}, {&b_, {4, 1, 3}}}));
}

TEST_P(EveryModel, BatchEqualsOneByOne) {
  auto options = settings();
  options.candidate_attention = options.candidate_norm = false;  // a candidate alone has nobody to be compared with
  const auto model = fitted_model(options, {&a_, &b_});
  model->eval();
  const auto batched = model->score(plan_of(*model, {{&b_, {4, 2}}, {&a_, {0, 1}}}));
  std::vector<torch::Tensor> single;
  for (const auto& [group, id] :
       std::vector<std::pair<const Group*, int64_t>>{{&b_, 4}, {&b_, 2}, {&a_, 0}, {&a_, 1}}) {
    single.push_back(model->score(plan_of(*model, {{group, {id}}})));
  }
  EXPECT_TRUE(torch::allclose(batched, torch::cat(single), 1e-10, 1e-12));
}

std::string name_of(const ::testing::TestParamInfo<EveryModel::ParamType>& info) {
  const auto& [variant, kind, join] = info.param;
  const std::string kinds[] = {"_layout", "_tile_" + join, "_program"};
  return variant + kinds[static_cast<size_t>(kind)];
}

INSTANTIATE_TEST_SUITE_P(Layout, EveryModel,
                         ::testing::Combine(::testing::ValuesIn(testing::variant_names()),
                                            ::testing::Values(CandidateKind::layout), ::testing::Values("early")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Tile, EveryModel,
                         ::testing::Combine(::testing::ValuesIn(testing::variant_names()),
                                            ::testing::Values(CandidateKind::tile), ::testing::Values("early", "late")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Program, EveryModel,
                         ::testing::Combine(::testing::ValuesIn(testing::variant_names()),
                                            ::testing::Values(CandidateKind::program), ::testing::Values("early")),
                         name_of);

class EveryReadout : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryReadout, EqualsSlowTwinAndFiniteDifferences) {
  const auto group = testing::make_group(CandidateKind::layout, "a", 21);
  auto settings = settings_of_type("gcn", CandidateKind::layout);
  settings.readout = {configs::choice_named<configs::ReadoutPart>(GetParam()).value()};
  const auto model = fitted_model(settings, {&group});
  const auto plan = plan_of(*model, {{&group, {0, 1, 2, 3, 4}}});
  EXPECT_TRUE(torch::allclose(model->score(plan), testing::SlowModel(settings, *model).score(group, {0, 1, 2, 3, 4}),
                              kRelative, kAbsolute));
  expect_model_gradients(model, plan);
}

INSTANTIATE_TEST_SUITE_P(All, EveryReadout,
                         ::testing::Values("mean", "sum", "max", "normalized_sum", "configurable_mean",
                                           "configurable_sum", "configurable_max", "configurable_normalized_sum",
                                           "decision_mean", "decision_sum", "decision_normalized_sum"));

/// The same graph with its nodes in another order.
Group relabelled(const Group& group, const std::vector<int32_t>& new_id) {
  Group result = group;
  const int64_t width = group.graphs.feature_count, nodes = group.graphs.nodes();
  std::vector<float> features(static_cast<size_t>(nodes * width));
  std::vector<uint8_t> types(static_cast<size_t>(nodes));
  for (int64_t v = 0; v < nodes; ++v) {
    const auto to = static_cast<size_t>(new_id[static_cast<size_t>(v)]);
    types[to] = group.graphs.node_types[v];
    for (int64_t f = 0; f < width; ++f) {
      features[to * static_cast<size_t>(width) + static_cast<size_t>(f)] = group.graphs.node_features[v * width + f];
    }
  }
  const auto renamed = [&](const Array<int32_t>& ids) {
    std::vector<int32_t> out;
    for (const int32_t id : ids) out.push_back(new_id[static_cast<size_t>(id)]);
    return out;
  };
  result.graphs.node_features = features;
  result.graphs.node_types = types;
  result.graphs.edge_source = renamed(group.graphs.edge_source);
  result.graphs.edge_target = renamed(group.graphs.edge_target);
  result.layout.nodes = renamed(group.layout.nodes);
  return result;
}

TEST(Models, ScoresDoNotDependOnTheOrderOfNodes) {
  const auto group = testing::make_group(CandidateKind::layout, "a", 31);
  std::vector<int32_t> new_id(static_cast<size_t>(group.graphs.nodes()));
  std::iota(new_id.begin(), new_id.end(), 0);
  std::reverse(new_id.begin() + 2, new_id.end());
  const auto other = relabelled(group, new_id);
  for (const auto& type : testing::variant_names()) {
    const auto model = fitted_model(settings_of_type(type, CandidateKind::layout), {&group});
    const auto scores = model->score(plan_of(*model, {{&group, {0, 1, 2}}}));
    EXPECT_TRUE(torch::allclose(scores, model->score(plan_of(*model, {{&other, {0, 1, 2}}})), 1e-10, 1e-12)) << type;
    EXPECT_FALSE(torch::equal(scores[0], scores[1])) << type << " does not see layouts";
  }
}

TEST(Models, CandidatesAreComparedWithinTheirGroupInAnyOrder) {
  const auto a = testing::make_group(CandidateKind::layout, "a", 32),
             b = testing::make_group(CandidateKind::layout, "b", 33);
  const auto model = fitted_model(settings_of_type("gcn_candidate_attention", CandidateKind::layout), {&a, &b});
  const auto scores = model->score(plan_of(*model, {{&a, {0, 1, 2}}, {&b, {3, 1}}}));
  EXPECT_TRUE(torch::allclose(scores.narrow(0, 0, 3), model->score(plan_of(*model, {{&a, {0, 1, 2}}})), 1e-10, 1e-12))
      << "another group matters";
  EXPECT_TRUE(
      torch::allclose(scores.narrow(0, 0, 3).flip(0), model->score(plan_of(*model, {{&a, {2, 1, 0}}})), 1e-10, 1e-12));
  EXPECT_FALSE(torch::allclose(scores[0], model->score(plan_of(*model, {{&a, {0, 1}}}))[0], 1e-6, 1e-9))
      << "candidates are not compared";
  // In pieces, as evaluation takes large groups.
  const auto embedded =
      torch::cat({model->embed(plan_of(*model, {{&a, {0}}})), model->embed(plan_of(*model, {{&a, {1, 2}}}))});
  EXPECT_TRUE(torch::allclose(model->score_embedded(embedded, {0, 3}), scores.narrow(0, 0, 3), 1e-10, 1e-12));
}

TEST(Models, EdgeDropoutKeepsTheExpectationAndEvaluatesWithout) {
  const auto group = testing::make_group(CandidateKind::layout, "a", 35);
  for (const auto* type : {"gcn", "gat", "sage_max", "chebnet"}) {
    auto settings = settings_of_type(type, CandidateKind::layout);
    const auto whole = fitted_model(settings, {&group});
    settings.edge_dropout = 0.3;
    const auto model = fitted_model(settings, {&group});
    const auto plan = plan_of(*model, {{&group, {0, 1, 2}}});
    torch::manual_seed(1);
    const auto first = model->score(plan);
    EXPECT_FALSE(torch::equal(first, model->score(plan))) << type;
    torch::manual_seed(1);
    EXPECT_TRUE(torch::equal(first, model->score(plan))) << type;
    torch::manual_seed(1);
    testing::expect_gradients(
        [&] {
          torch::manual_seed(2);  // the same messages each time
          return model->score(plan).sum();
        },
        testing::leaves_of(*model), 1e-5);
    model->eval();
    EXPECT_TRUE(torch::equal(model->score(plan), whole->score(plan))) << type;
  }
}

TEST(Models, SageNormalisesAndOptionsReachTheModel) {
  const auto group = testing::make_group(CandidateKind::tile, "a", 41);
  auto settings = settings_of_type("sage", CandidateKind::tile);
  settings.l2_normalize = true;
  settings.residual = false;
  settings.activation = configs::Activation::relu;
  settings.head_bias = configs::HeadBias::all;
  settings.encoder_layers = 1;
  settings.head_layers = 3;
  const auto model = fitted_model(settings, {&group});
  const auto plan = plan_of(*model, {{&group, {0, 1, 2}}});
  EXPECT_TRUE(torch::allclose(model->score(plan), testing::SlowModel(settings, *model).score(group, {0, 1, 2}),
                              kRelative, kAbsolute));
}

/// States that merge and multiply between levels, as in a shared plan: nothing may assume node × candidate.
TEST(Models, HoldForPlansWhoseLevelsDiffer) {
  const auto group = testing::make_group(CandidateKind::layout, "a", 51);
  for (const auto& type : testing::variant_names()) {
    auto settings = settings_of_type(type, CandidateKind::layout);
    if (type.starts_with("mlp")) continue;  // one level only
    settings.sharing = configs::StateSharing::none;
    const auto model = fitted_model(settings, {&group});
    plans::PlanBuilder builder(model->plan_request());
    const std::vector<int64_t> twice = {2, 2};
    builder.add(group, twice);
    auto plan = std::move(builder).build();
    const auto expected = model->score(to_tensors(plan, {.dtype = torch::kDouble}));

    // Both candidates are one configuration: keep the first copy's states at level 0 and let both copies of level 1
    // read them.
    const auto nodes = static_cast<int32_t>(group.graphs.nodes());
    auto below = std::make_shared<plans::PlanLevel>(*plan.levels[0]);
    below->node.resize(static_cast<size_t>(nodes));
    if (!below->layout_row.empty()) below->layout_row.resize(static_cast<size_t>(nodes));
    auto layer = std::make_shared<plans::PlanLayer>(*plan.layers[0]);
    for (auto& id : layer->self) id %= nodes;
    for (auto& relation : layer->relations) {
      relation.cols = nodes;
      for (auto& column : relation.columns) column %= nodes;
    }
    plan.levels[0] = below;
    plan.layers[0] = layer;
    EXPECT_TRUE(torch::allclose(model->score(to_tensors(plan, {.dtype = torch::kDouble})), expected, 1e-12, 1e-12))
        << type;
  }
}

/// Each member alone is the model that its weights make; together they are the mean.
TEST(Models, MembersAreModelsOfTheirOwn) {
  const auto group = testing::make_group(CandidateKind::layout, "a", 36);
  auto settings = settings_of_type("gcn_candidate_attention", CandidateKind::layout);
  const auto alone = fitted_model(settings, {&group});
  settings.ensemble_size = 3;
  const auto model = fitted_model(settings, {&group});
  const auto plan = plan_of(*model, {{&group, {0, 1, 2}}});
  const auto scores = model->member_scores(plan);
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_TRUE(torch::allclose(model->score(plan), torch::stack(scores).mean(0), 1e-12, 1e-12));
  EXPECT_TRUE(
      torch::allclose(model->score_embedded(model->embed(plan), plan.group_ptr), model->score(plan), 1e-12, 1e-12));
  EXPECT_FALSE(torch::allclose(scores[0], scores[1], 1e-6, 1e-9));
  EXPECT_TRUE(torch::equal(scores[0], alone->score(plan))) << "the first member's weights are drawn first";
  EXPECT_EQ(model->named_parameters().size(), 3 * alone->named_parameters().size());
  settings.candidate_attention = false;
  const auto pooled = fitted_model(settings, {&group});
  EXPECT_TRUE(torch::allclose(pooled->score_pools(pooled->combine_pools(pooled->pool(plan))), pooled->score(plan),
                              1e-12, 1e-12));
}

TEST(Models, MembersDrawTheDropoutOfAModelOfTheirOwn) {
  const auto group = testing::make_group(CandidateKind::layout, "a", 36);
  auto settings = settings_of_type("gcn", CandidateKind::layout);
  settings.dropout = 0.5;
  const auto alone = fitted_model(settings, {&group});
  settings.ensemble_size = 2;
  const auto model = fitted_model(settings, {&group});
  const auto plan = plan_of(*model, {{&group, {0, 1, 2}}});
  torch::manual_seed(1);
  const auto scores = model->member_scores(plan);
  torch::manual_seed(1);
  EXPECT_TRUE(torch::equal(scores.at(0), alone->score(plan))) << "nothing of the second member is drawn before";
  EXPECT_FALSE(torch::allclose(scores.at(0), scores.at(1), 1e-6, 1e-9));
}

TEST(Models, DropoutIsDrawnInTrainingOnlyAndFromTorchsGenerator) {
  const auto group = testing::make_group(CandidateKind::program, "a", 61);
  auto settings = settings_of_type("residual_gcn", CandidateKind::program);
  settings.dropout = 0.5;
  const auto model = fitted_model(settings, {&group});
  const auto plan = plan_of(*model, {{&group, {0, 1, 2}}});
  torch::manual_seed(1);
  const auto first = model->score(plan);
  EXPECT_FALSE(torch::equal(first, model->score(plan)));
  torch::manual_seed(1);
  EXPECT_TRUE(torch::equal(first, model->score(plan)));
  model->eval();
  EXPECT_TRUE(torch::equal(model->score(plan), model->score(plan)));
}

TEST(Models, NamesAndInitialWeightsAreStable) {
  const InputSchema schema{CandidateKind::layout, 140, 120};
  ModelSettings settings;
  torch::manual_seed(3);
  const auto first = make_model(settings, schema);
  torch::manual_seed(3);
  const auto second = make_model(settings, schema);
  std::vector<std::string> names;
  for (const auto& item : first->named_parameters()) {
    names.push_back(item.key());
    EXPECT_TRUE(torch::equal(item.value(), second->named_parameters()[item.key()]));
  }
  const std::vector<std::string> expected = {
      "encoder.node_types.weight", "encoder.dense.0.weight", "encoder.dense.0.bias", "encoder.dense.1.weight",
      "encoder.dense.1.bias",      "layers.0.mlp.0.weight",  "layers.0.mlp.0.bias",  "layers.0.mlp.1.weight",
      "layers.0.mlp.1.bias",       "layers.1.mlp.0.weight",  "layers.1.mlp.0.bias",  "layers.1.mlp.1.weight",
      "layers.1.mlp.1.bias",       "head.0.weight",          "head.1.weight"};
  EXPECT_EQ(names, expected);
  EXPECT_EQ(first->named_parameters()["encoder.dense.0.weight"].sizes(), (std::vector<int64_t>{32, 18 + 140 + 32}));
}

TEST(Models, RefuseSettingsThatDoNotFit) {
  const InputSchema tile{CandidateKind::tile, 140, 120};
  ModelSettings settings;
  EXPECT_THROW(make_model(settings, tile), ModelError) << "configurable_ readout without layouts";
  settings.readout = {configs::ReadoutPart::mean};
  EXPECT_NO_THROW(make_model(settings, tile));
  settings.readout = {};
  EXPECT_THROW(make_model(settings, tile), ModelError);
}

TEST(Models, RefusePlansOfAnotherModel) {
  const auto group = testing::make_group(CandidateKind::layout, "a", 71);
  const auto gcn = fitted_model(settings_of_type("gcn", CandidateKind::layout), {&group});
  const auto sage = fitted_model(settings_of_type("sage", CandidateKind::layout), {&group});
  EXPECT_THROW(gcn->score(plan_of(*sage, {{&group, {0}}})), BrokenInvariant);
  auto narrow = make_model(settings_of_type("gcn", CandidateKind::layout), {CandidateKind::layout, 3, 2});
  narrow->to(torch::kDouble);
  EXPECT_THROW(narrow->score(plan_of(*gcn, {{&group, {0}}})), ModelError) << "node types past the embedding";
}

}  // namespace
}  // namespace foretime::models
