/// Every model in training against its exported graph, run by the executor: same plans, same scores.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/dataset/group_files.h"
#include "data/frontends/loops/loop_graph.h"
#include "inference/graph/graph.h"
#include "inference/runtime/references.h"
#include "models/model.h"
#include "tests/data/groups.h"
#include "tests/models/small_models.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"
#include "tests/support/synthetic_graph.h"

namespace foretime::models {
namespace {

using configs::ModelSettings;
using data::CandidateKind;
using data::Group;
using testing::fitted_model;

constexpr double kTolerance = 1e-5;  // of the largest score, and at least of 1

ModelSettings small_settings(const std::string& variant, CandidateKind kind) {
  using P = configs::ReadoutPart;
  if (kind == CandidateKind::layout)
    return testing::variant_settings(
        variant, {P::mean, P::normalized_sum, P::configurable_mean, P::configurable_max, P::decision_sum});
  return testing::variant_settings(variant, {P::mean, P::sum, P::max, P::normalized_sum});
}

/// Weights of a trained model: nothing stays at 0 or 1.
void shake(CostModel& model) {
  const torch::NoGradGuard no_gradient;
  for (auto& parameter : model.parameters()) parameter.add_(torch::randn_like(parameter) * 0.2);
  for (const auto& buffer : model.named_buffers()) {
    if (buffer.key().ends_with("running_mean")) buffer.value().normal_();
    if (buffer.key().ends_with("running_variance")) buffer.value().uniform_(0.5, 2.0);
  }
}

plans::MessagePlan plan_of(const std::vector<const Group*>& groups, const plans::PlanRequest& request) {
  plans::PlanBuilder builder(request);
  for (const Group* group : groups) {
    std::vector<int64_t> ids;
    for (int64_t c = 0; c < group->candidates; ++c) ids.push_back(group->candidates - 1 - c);
    builder.add(*group, ids);
  }
  return std::move(builder).build();
}

/// The graph after a trip through JSON.
std::unique_ptr<inference::Executor> executor_of(const CostModel& model, int64_t feature_count) {
  const auto graph = model.inference_graph();
  auto weights = std::make_shared<inference::Weights>(model.inference_weights());
  const auto json = nlohmann::json::parse(inference::to_json(graph).dump());
  auto read = inference::parse_graph(json, inference::shapes_of(*weights), feature_count);
  EXPECT_EQ(read.embed, graph.embed);
  EXPECT_EQ(read.score, graph.score);
  EXPECT_EQ(read.request, graph.request);
  return std::make_unique<inference::Executor>(std::move(read), std::move(weights), feature_count);
}

void expect_graph_scores_as_model(const ModelSettings& settings, const std::vector<const Group*>& groups) {
  const auto model = fitted_model(settings, groups);
  shake(*model);
  model->eval();
  const auto executor = executor_of(*model, groups[0]->graphs.feature_count);
  const auto plan = plan_of(groups, executor->graph().request);
  const torch::NoGradGuard no_gradient;
  const auto own_plan = plan_of(groups, model->plan_request());
  const auto tensors = to_tensors(own_plan, {.dtype = torch::kDouble});
  const auto expected = model->score(tensors),
             outputs = model->outputs_embedded(model->embed(tensors), tensors.group_ptr);
  EXPECT_EQ(executor->predicts_failures(), settings.failure_output);
  inference::Workspace workspace;
  for (int round = 0; round < 2; ++round) {  // buffers are used again, and hold what was there
    std::vector<float> failures;
    const auto scores = executor->score(executor->embed(plan, workspace), plan.group_ptr, workspace, &failures);
    ASSERT_EQ(failures.size(), settings.failure_output ? scores.size() : 0U);
    for (size_t c = 0; c < failures.size(); ++c)
      EXPECT_NEAR(static_cast<double>(failures[c]), torch::sigmoid(outputs[static_cast<int64_t>(c)][1]).item<double>(),
                  kTolerance);
    ASSERT_EQ(static_cast<int64_t>(scores.size()), expected.numel());
    const double scale = std::max(1.0, expected.abs().max().item<double>());
    for (int64_t c = 0; c < expected.numel(); ++c)
      EXPECT_NEAR(static_cast<double>(scores[static_cast<size_t>(c)]), expected[c].item<double>(), kTolerance * scale);
  }
}

class EveryGraph : public ::testing::TestWithParam<std::tuple<std::string, CandidateKind, std::string>> {};

TEST_P(EveryGraph, ScoresAsTheModel) {
  const auto [variant, kind, join] = GetParam();
  auto settings = small_settings(variant, kind);
  settings.tile_join = configs::choice_named<configs::TileJoin>(join).value();
  auto a = testing::make_group(kind, "a", 11), b = testing::make_group(kind, "b", 12);
  b.collection = data::Collection::layout_nlp_default;
  expect_graph_scores_as_model(settings, {&a, &b});
  settings.ensemble_size = 2;
  settings.features.log = true;
  settings.failure_output = kind == CandidateKind::program;
  expect_graph_scores_as_model(settings, {&a, &b});
}

INSTANTIATE_TEST_SUITE_P(Layout, EveryGraph,
                         ::testing::Combine(::testing::ValuesIn(testing::variant_names()),
                                            ::testing::Values(CandidateKind::layout), ::testing::Values("early")));
INSTANTIATE_TEST_SUITE_P(Tile, EveryGraph,
                         ::testing::Combine(::testing::ValuesIn(testing::variant_names()),
                                            ::testing::Values(CandidateKind::tile),
                                            ::testing::Values("early", "late")));
INSTANTIATE_TEST_SUITE_P(Program, EveryGraph,
                         ::testing::Combine(::testing::ValuesIn(testing::variant_names()),
                                            ::testing::Values(CandidateKind::program), ::testing::Values("early")));

TEST(InferenceGraph, ScoresSharedPlansAndTheirStages) {
  const auto group = foretime::testing::synthesize_layout_group({200, 40, 300, 5}, "synthetic");
  for (const char* variant : {"gcn_layout_gate", "residual_gcn", "gat", "stacked", "gcn_candidate_norm"}) {
    auto settings = small_settings(variant, CandidateKind::layout);
    expect_graph_scores_as_model(settings, {&group});
  }
}

TEST(InferenceGraph, NormalisesOverGraphs) {
  const auto group = testing::make_group(CandidateKind::layout, "a", 3);
  auto settings = small_settings("gcn", CandidateKind::layout);
  settings.norm = configs::Norm::graph;
  expect_graph_scores_as_model(settings, {&group});
}

TEST(InferenceGraph, PoolsNodesAway) {
  const auto a = testing::make_group(CandidateKind::program, "a", 21),
             b = testing::make_group(CandidateKind::program, "b", 22);
  auto settings = small_settings("gcn", CandidateKind::program);
  settings.type = configs::ModelType::tpgnn;
  settings.layers = 3;
  settings.tpgnn.pool_ratio = 0.6;
  settings.readout = {configs::ReadoutPart::mean, configs::ReadoutPart::max};
  expect_graph_scores_as_model(settings, {&a, &b});
  settings.failure_output = true;
  settings.ensemble_size = 2;
  expect_graph_scores_as_model(settings, {&a, &b});
}

TEST(InferenceGraph, CostsStatements) {
  configs::DataSettings loops;
  loops.representation = configs::Representation::loops;
  const auto headers = data::list_groups({"t08.npz"}, testing::samples_dir() / "ansor" / "trees",
                                         CandidateKind::program, {}, data::make_featurizer(loops));
  const auto group = data::load_group(headers.at(0));
  for (const bool context : {false, true}) {
    ModelSettings settings;
    settings.type = configs::ModelType::statement_cost;
    settings.hidden = 6;
    settings.statement_cost.loop_hidden = 5;
    settings.head_layers = 3;
    settings.ensemble_size = context ? 2 : 1;
    settings.statement_cost.context = context;
    settings.statement_cost.clip = context ? 0.0 : 3.0;
    settings.failure_output = context;
    using Input = configs::StatementInput;
    if (!context) settings.statement_cost.inputs = {Input::loops, Input::block};
    expect_graph_scores_as_model(settings, {&group});
  }
}

TEST(InferenceGraph, IsCheckedAgainstItsWeights) {
  const auto group = testing::make_group(CandidateKind::layout, "a", 3);
  const auto model = fitted_model(small_settings("gat", CandidateKind::layout), {&group});
  const auto graph = model->inference_graph();
  const auto weights = model->inference_weights();
  const auto shapes = inference::shapes_of(weights);
  const auto refusal = [&](auto&& damage) {
    auto json = inference::to_json(graph);
    auto changed = shapes;
    damage(json, changed);
    return testing::message_of<inference::BundleError>(
        [&] { inference::parse_graph(json, changed, group.graphs.feature_count); });
  };
  using Json = nlohmann::json;
  using Shapes = inference::WeightShapes;
  EXPECT_EQ(refusal([](Json&, Shapes&) {}), "no exception");
  const std::function<void(Json&, Shapes&)> damages[] = {
      [](Json& j, Shapes&) { j["embed"][3]["op"] = "divide"; },
      [](Json& j, Shapes&) { j["embed"][0]["x"] = "v9999"; },
      [](Json& j, Shapes&) { j["embedded_columns"] = 7; },
      [](Json& j, Shapes&) { j["request"]["sharing"] = "all"; },
      [](Json& j, Shapes&) { j["request"]["layers"] = "2"; },
      [](Json&, Shapes& s) { s.erase("head.0.weight"); },
      [](Json&, Shapes& s) {
        s["head.0.weight"] = {6, 5};
      },
      [](Json&, Shapes& s) { s["layers.0.bias"] = s["layers.0.producers.bias"] = {5}; }};
  for (const auto& damage : damages) EXPECT_MESSAGE(refusal(damage));
}

}  // namespace
}  // namespace foretime::models
