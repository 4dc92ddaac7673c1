/// TPGNN and its pooling against a twin that removes nodes for real, one dense graph at a time.
#include <random>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "data/dataset/group_files.h"
#include "models/autograd/run.h"
#include "models/model.h"
#include "models/statistics.h"
#include "tests/data/groups.h"
#include "tests/models/slow_tpgnn.h"
#include "tests/models/small_models.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"

namespace foretime::models {
namespace {

using configs::ModelSettings;
using data::CandidateKind;
using data::Group;
using testing::fitted_model;
using testing::message_of;

constexpr double kTpgnnTolerance = 1e-9;

std::vector<int64_t> top(const std::vector<double>& scores, std::vector<int64_t> graph_ptr, double ratio,
                         torch::Dtype dtype = torch::kDouble) {
  std::vector<int64_t> kept_ptr;
  const double tie = 256 * (dtype == torch::kDouble ? 0x1p-52 : 0x1p-23);
  return top_nodes(torch::tensor(scores, torch::kDouble).to(dtype), graph_ptr, ratio, tie, kept_ptr);
}

using Ids = std::vector<int64_t>;

TEST(TopNodes, KeepsTheBestOfEachGraphInTheOrderOfNodes) {
  EXPECT_EQ(top({1, 5, 3, 4, 2}, {0, 5}, 0.6), (Ids{1, 2, 3}));
  EXPECT_EQ(top({1, 5, 3, 4, 2}, {0, 2, 5}, 0.5), (Ids{1, 2, 3})) << "ceil(1.5) = 2 of the second graph";
  EXPECT_EQ(top({-1, -5, -3}, {0, 1, 3}, 0.1), (Ids{0, 2})) << "at least one of each graph";
  EXPECT_EQ(top({3, 2, 1}, {0, 3}, 1.0), (Ids{0, 1, 2}));
  EXPECT_EQ(top({7}, {0, 0, 1}, 0.5), (Ids{0})) << "a graph without nodes";
}

TEST(TopNodes, CountsAsTheProductIsMeant) {
  // 0.07 * 100 is 7.000000000000001 in double.
  for (const auto& [nodes, ratio, expected] :
       std::vector<std::tuple<int64_t, double, size_t>>{{100, 0.07, 7}, {5, 0.8, 4}, {6, 0.8, 5}, {1000, 0.8, 800}}) {
    EXPECT_EQ(top(std::vector<double>(static_cast<size_t>(nodes), 1.0), {0, nodes}, ratio).size(), expected) << nodes;
  }
}

TEST(TopNodes, OfEquivalentDecisionsTheFirstStay) {
  EXPECT_EQ(top({1, 2, 1, 2, 1}, {0, 5}, 0.8), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(top({1, 2, 1, 2, 1}, {0, 5}, 0.2), (Ids{1}));
  const double near = 1 + 1e-6;
  EXPECT_EQ(top({1, near, near, 0}, {0, 4}, 0.5, torch::kFloat), (Ids{0, 1})) << "float cannot tell these apart";
  EXPECT_EQ(top({1, near, near, 0}, {0, 4}, 0.5, torch::kDouble), (Ids{1, 2}));
  EXPECT_EQ(top({0, 0, 0}, {0, 3}, 0.4), (Ids{0, 1}));
}

TEST(TopNodes, LivesThroughScoresThatAreNotFinite) {
  const double none = std::nan(""), most = std::numeric_limits<double>::infinity();
  EXPECT_EQ(top({none, none, none}, {0, 3}, 0.4), (Ids{0, 1}));
  EXPECT_EQ(top({1, none, most, -most}, {0, 4}, 0.5).size(), 2u);
}

TEST(TopNodes, EqualTheObviousRanking) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> scores;
    std::vector<int64_t> graph_ptr = {0};
    for (int g = 0; g < 4; ++g) {
      const auto nodes = 1 + random() % 12;
      for (size_t v = 0; v < nodes; ++v) scores.push_back(static_cast<double>(random() % 7) - 3.0);
      graph_ptr.push_back(static_cast<int64_t>(scores.size()));
    }
    const double ratio = static_cast<double>(1 + random() % 10) / 10;
    std::vector<int64_t> expected;
    for (size_t g = 0; g + 1 < graph_ptr.size(); ++g) {
      const std::vector<double> own(scores.begin() + graph_ptr[g], scores.begin() + graph_ptr[g + 1]);
      for (const int64_t v : testing::slow_top_nodes(own, ratio)) expected.push_back(graph_ptr[g] + v);
    }
    ASSERT_EQ(top(scores, graph_ptr, ratio), expected);
  }
}

ModelSettings tpgnn_settings() {
  ModelSettings settings;
  settings.type = configs::ModelType::tpgnn;
  settings.hidden = 6;
  settings.layers = 3;
  settings.node_type_embedding = 4;
  settings.encoder_layers = 0;
  settings.head_layers = 3;
  settings.head_bias = configs::HeadBias::all;
  settings.readout = {configs::ReadoutPart::mean, configs::ReadoutPart::max};
  settings.features.transform = configs::FeatureTransform::zscore;
  return settings;
}

PlanTensors plan_of(const CostModel& model, const Group& group, const std::vector<int64_t>& ids,
                    torch::Dtype dtype = torch::kDouble) {
  return testing::plan_of(model, {{&group, ids}}, dtype);
}

/// Scores, and the gradients of their sum with unequal weights.
void expect_equals_twin(const ModelSettings& settings, const Group& group, const std::vector<int64_t>& ids) {
  const auto model = fitted_model(settings, {&group});
  const testing::SlowTpgnn slow(settings, *model);
  const auto scores = model->score(plan_of(*model, group, ids)), expected = slow.score(group, ids);
  ASSERT_TRUE(torch::allclose(scores, expected, kTpgnnTolerance, kTpgnnTolerance)) << scores << expected;
  const auto weights = torch::arange(1, static_cast<int64_t>(ids.size()) + 1, torch::kDouble);
  (scores * weights).sum().backward();
  (expected * weights).sum().backward();
  for (const auto& item : model->named_parameters()) {
    const auto found = item.value().grad(), wanted = slow.gradient(item.key());
    ASSERT_TRUE(found.defined() && wanted.defined()) << item.key();
    EXPECT_TRUE(torch::allclose(found, wanted, kTpgnnTolerance, kTpgnnTolerance)) << item.key();
    EXPECT_GT(wanted.abs().max().item<double>(), 0) << item.key() << " does not matter";
  }
}

TEST(Tpgnn, EqualsTwinThatRemovesNodes) {
  const auto group = testing::make_group(CandidateKind::program, "a", 11);
  const std::vector<int64_t> ids = {3, 0, 3, 1, 2, 4};
  for (const double ratio : {0.8, 0.5, 1.0, 0.05}) {
    auto settings = tpgnn_settings();
    settings.tpgnn.pool_ratio = ratio;
    settings.activation = ratio == 0.5 ? configs::Activation::relu : configs::Activation::leaky_relu;
    settings.hidden = ratio == 0.5 ? 24 : 6;  // enough that something is left of it
    expect_equals_twin(settings, group, ids);
  }
  auto settings = tpgnn_settings();
  settings.layers = 1;
  settings.encoder_layers = 2;
  settings.head_bias = configs::HeadBias::none;
  settings.head_layers = 1;
  settings.readout = {configs::ReadoutPart::sum, configs::ReadoutPart::normalized_sum};
  settings.features.log = true;
  expect_equals_twin(settings, group, ids);
}

class TpgnnOnRealPrograms : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto headers = data::list_groups({"C1.npz"}, testing_samples(), CandidateKind::program);
    group_ = data::load_group(headers.at(0));
  }
  static std::filesystem::path testing_samples() { return foretime::testing::samples_dir() / "resnet18_conv2d"; }
  Group group_;
};

/// Trees with many equal subtrees, so with ties in every pooling.
TEST_F(TpgnnOnRealPrograms, EqualsTwinThatRemovesNodes) {
  auto settings = tpgnn_settings();
  settings.hidden = 16;
  settings.node_type_embedding = 18;
  settings.node_types.vectors = configs::NodeTypeVectors::fasttext;
  settings.features.columns = {"log_value", "has_variable"};
  expect_equals_twin(settings, group_, {0, 77, 200, 13, 251});
}

/// A candidate's score must not depend on its neighbours in a batch, though its products may be rounded otherwise
/// there.
TEST_F(TpgnnOnRealPrograms, ThousandsOfGraphsInABatchScoreAsEachAlone) {
  auto settings = tpgnn_settings();
  settings.hidden = 12;
  const auto model = fitted_model(settings, {&group_});
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 2000; ++i) ids.push_back(i * 7 % group_.candidates);
  const torch::NoGradGuard no_gradient;
  for (const auto dtype : {torch::kDouble, torch::kFloat}) {
    model->to(dtype);
    const auto batched = model->score(plan_of(*model, group_, ids, dtype));
    ASSERT_EQ(batched.size(0), 2000);
    for (size_t i = 0; i < ids.size(); i += 97) {
      const auto alone = model->score(plan_of(*model, group_, {ids[i]}, dtype)).item<double>();
      EXPECT_NEAR(batched[static_cast<int64_t>(i)].item<double>(), alone, dtype == torch::kFloat ? 1e-4 : 1e-10);
    }
  }
}

TEST_F(TpgnnOnRealPrograms, ReadsTheNamedColumnsAndNoOthers) {
  auto settings = tpgnn_settings();
  settings.features.columns = {"log_value", "has_variable"};
  const auto model = fitted_model(settings, {&group_});
  const auto plan = plan_of(*model, group_, {0, 1, 2});
  auto other = plan;
  other.node_features = torch::rand_like(plan.node_features);
  EXPECT_FALSE(torch::equal(model->score(plan), model->score(other)));
  for (const int64_t column : {7, 10})  // log_value, has_variable
    other.node_features.select(1, column).copy_(plan.node_features.select(1, column));
  EXPECT_TRUE(torch::equal(model->score(plan), model->score(other)));
}

TEST(Tpgnn, HasTheSizesOfItsText) {
  auto settings = tpgnn_settings();
  settings.hidden = 128;
  settings.node_type_embedding = 18;
  settings.node_types.vectors = configs::NodeTypeVectors::fasttext;
  settings.features.columns = {"log_value", "has_variable"};
  const auto model = make_model(settings, {CandidateKind::program, 26, 56});
  std::vector<std::pair<std::string, std::vector<int64_t>>> shapes;
  for (const auto& item : model->named_parameters()) shapes.emplace_back(item.key(), item.value().sizes().vec());
  const std::vector<std::pair<std::string, std::vector<int64_t>>> expected = {{"layers.0.linear.weight", {128, 20}},
                                                                              {"layers.0.linear.bias", {128}},
                                                                              {"layers.1.linear.weight", {128, 128}},
                                                                              {"layers.1.linear.bias", {128}},
                                                                              {"layers.2.linear.weight", {128, 128}},
                                                                              {"layers.2.linear.bias", {128}},
                                                                              {"pools.0.weight", {128}},
                                                                              {"pools.1.weight", {128}},
                                                                              {"pools.2.weight", {128}},
                                                                              {"head.0.weight", {128, 256}},
                                                                              {"head.0.bias", {128}},
                                                                              {"head.1.weight", {64, 128}},
                                                                              {"head.1.bias", {64}},
                                                                              {"head.2.weight", {1, 64}},
                                                                              {"head.2.bias", {1}}};
  EXPECT_EQ(shapes, expected);
  EXPECT_EQ(model->named_buffers()["encoder.type_vectors"].sizes(), (std::vector<int64_t>{56, 18}));
}

TEST(Tpgnn, RefusesWhatItCannotScore) {
  using ::testing::HasSubstr;
  const auto error = [](CandidateKind kind, const std::function<void(ModelSettings&)>& change) {
    auto settings = tpgnn_settings();
    change(settings);
    return message_of<ModelError>([&] { make_model(settings, {kind, 26, 56}); });
  };
  const auto nothing = [](ModelSettings&) {};
  EXPECT_EQ(error(CandidateKind::program, nothing), "no exception");
  EXPECT_THAT(error(CandidateKind::layout, nothing), HasSubstr("expected programs"));
  EXPECT_THAT(error(CandidateKind::tile, nothing), HasSubstr("expected programs"));
  EXPECT_THAT(error(CandidateKind::program, [](auto& s) { s.norm = configs::Norm::graph; }), HasSubstr("model.norm"));
  EXPECT_THAT(error(CandidateKind::program, [](auto& s) { s.layers = 0; }), HasSubstr("model.layers: 0"));
  EXPECT_THAT(error(CandidateKind::program, [](auto& s) { s.tpgnn.pool_ratio = 0; }),
              HasSubstr("model.tpgnn.pool_ratio: 0"));
  EXPECT_THAT(error(CandidateKind::program, [](auto& s) { s.features.columns = {"log_vale"}; }),
              HasSubstr("is it log_value?"));
  EXPECT_THAT(error(CandidateKind::program, [](auto& s) { s.readout = {configs::ReadoutPart::configurable_mean}; }),
              HasSubstr("configurable"));

  const auto group = testing::make_group(CandidateKind::program, "a", 11);
  const auto model = fitted_model(tpgnn_settings(), {&group});
  auto other = tpgnn_settings();
  other.type = configs::ModelType::sage;
  other.encoder_layers = 1;
  const auto sage = fitted_model(other, {&group});
  EXPECT_THROW(model->score(plan_of(*sage, group, {0})), BrokenInvariant);
  EXPECT_THAT(message_of<ModelError>([&] { model->pool(plan_of(*model, group, {0})); }),
              HasSubstr("sampler.max_segment_nodes"));
}

/// Every model reads vectors that were made beforehand; they are saved with it and never trained.
TEST(TypeVectors, StandInForLearnedOnes) {
  const auto group = testing::make_group(CandidateKind::program, "a", 11);
  for (const auto* type : {"mlp", "gcn", "sage", "residual_gcn"}) {
    auto settings = tpgnn_settings();
    settings.type = configs::choice_named<configs::ModelType>(type).value();
    settings.encoder_layers = 1;
    const auto learned = fitted_model(settings, {&group});
    settings.node_types.vectors = configs::NodeTypeVectors::fasttext;
    const auto model = fitted_model(settings, {&group});
    EXPECT_FALSE(model->named_parameters().contains("encoder.node_types.weight"));
    const torch::NoGradGuard no_gradient;
    for (auto& item : learned->named_parameters()) {
      item.value().copy_(item.key() == "encoder.node_types.weight" ? model->named_buffers()["encoder.type_vectors"]
                                                                   : model->named_parameters()[item.key()]);
    }
    EXPECT_TRUE(
        torch::equal(model->score(plan_of(*model, group, {0, 1})), learned->score(plan_of(*learned, group, {0, 1}))))
        << type;
  }
}

TEST(TypeVectors, MustBeThereAndFit) {
  using ::testing::HasSubstr;
  auto settings = tpgnn_settings();
  settings.node_types.vectors = configs::NodeTypeVectors::fasttext;
  EXPECT_THAT(message_of<ModelError>([&] {
                make_model(settings, {CandidateKind::layout, 140, 120});
              }),
              HasSubstr("programs"));
  const auto group = testing::make_group(CandidateKind::program, "a", 11);
  const InputSchema schema{CandidateKind::program, group.graphs.feature_count, group.graphs.node_type_count};
  const auto model = make_model(settings, schema);
  StatisticsAccumulator accumulator(schema, false);
  accumulator.add(group);
  auto statistics = accumulator.finish();
  EXPECT_MESSAGE(message_of<ModelError>([&] { model->fit_transform(statistics); }));
  statistics.type_vectors = torch::zeros({7, 5});
  EXPECT_MESSAGE(message_of<ModelError>([&] { model->fit_transform(statistics); }));
}

}  // namespace
}  // namespace foretime::models
