/// The model of statements' costs against a twin that walks one program at a time, node by node.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/dataset/group_files.h"
#include "data/frontends/loops/loop_graph.h"
#include "data/graphs/schema.h"
#include "models/graph/error.h"
#include "models/model.h"
#include "tests/models/small_models.h"
#include "tests/support/golden.h"
#include "tests/support/gradcheck.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"

namespace foretime::models {
namespace {

using Columns = data::LoopColumns;
using configs::ModelSettings;
using Row = std::vector<double>;

const data::Group& group() {
  static const data::Group loaded = [] {
    configs::DataSettings settings;
    settings.representation = configs::Representation::loops;
    const auto headers = data::list_groups({"t08.npz"}, testing::samples_dir() / "ansor" / "trees",
                                           data::CandidateKind::program, {}, data::make_featurizer(settings));
    return data::load_group(headers.at(0));
  }();
  return loaded;
}

InputSchema schema() { return {data::CandidateKind::program, Columns::count, data::kTirTypes}; }

ModelSettings small_settings() {
  ModelSettings settings;
  settings.type = configs::ModelType::statement_cost;
  settings.hidden = 6;
  settings.statement_cost.loop_hidden = 5;
  settings.head_layers = 3;
  settings.activation = configs::Activation::leaky_relu;
  return settings;
}

std::shared_ptr<CostModel> make(const ModelSettings& settings) {
  auto model = testing::fitted_model(settings, {&group()});
  model->eval();
  return model;
}

PlanTensors plan_of(const CostModel& model, const std::vector<int64_t>& candidates) {
  return testing::plan_of(model, {{&group(), candidates}});
}

/// The score of one program, by the formula.
class Twin {
 public:
  Twin(CostModel& model, ModelSettings settings, int64_t member) : settings_(std::move(settings)) {
    const std::string prefix = "members." + std::to_string(member) + ".";
    for (const auto& parameter : model.named_parameters()) {
      if (parameter.key().starts_with(prefix)) weights_[parameter.key().substr(prefix.size())] = parameter.value();
    }
    for (const auto& buffer : model.named_buffers()) buffers_[buffer.key()] = buffer.value();
  }

  double score(int64_t candidate) const {
    auto [states, critical, launches] = parts(candidate);
    if (settings_.statement_cost.context) {
      Row sum(static_cast<size_t>(settings_.hidden), 0.0);
      for (const Row& state : states) {
        const Row part = dense("context", 1, state, true);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
      }
      for (Row& state : states) state.insert(state.end(), sum.begin(), sum.end());
    }
    double nanoseconds = launches * std::exp(weights_.at("launch_cost")[0].item<double>());
    for (size_t i = 0; i < states.size(); ++i)
      nanoseconds +=
          std::exp(critical[i] + dense("cost", settings_.statement_cost.context ? 2 : 1, states[i], false).at(0));
    return std::log(nanoseconds / 1e9);
  }

  /// The logit of its chance of failure.
  double failure(int64_t candidate) const {
    const auto states = parts(candidate).states;
    Row most = states.front(), mean(most.size(), 0.0);
    for (const Row& state : states) {
      for (size_t i = 0; i < most.size(); ++i) {
        most[i] = std::max(most[i], state[i]);
        mean[i] += state[i] / static_cast<double>(states.size());
      }
    }
    most.insert(most.end(), mean.begin(), mean.end());
    return dense("failure", 2, most, false).at(0);
  }

 private:
  struct Parts {
    std::vector<Row> states;  // of its statements
    std::vector<double> critical;
    double launches = 0.0;
  };

  Parts parts(int64_t candidate) const {
    const auto& graphs = group().graphs;
    Parts parts;
    for (int64_t node = graphs.graph_ptr[candidate]; node < graphs.graph_ptr[candidate + 1];) {
      const int64_t statement = node++;
      std::vector<Row> loops, accesses;
      for (; node < graphs.graph_ptr[candidate + 1] && value(node, Columns::statement) == 0.0; ++node) {
        if (value(node, Columns::loop) > 0)
          loops.push_back(dense("loops", 2, scaled(node, Columns::loop, Columns::kLoop), true));
        if (value(node, Columns::access) > 0) accesses.push_back(scaled(node, Columns::access, Columns::kAccess));
      }
      parts.critical.push_back(value(statement, Columns::critical));
      parts.launches += value(statement, Columns::launches);
      parts.states.push_back(dense("body", settings_.head_layers - 1, inputs(statement, loops, accesses), true));
    }
    return parts;
  }

  static double value(int64_t node, int64_t column) {
    return group().graphs.node_features[node * Columns::count + column];
  }

  Row scaled(int64_t node, int64_t first, int64_t count) const {
    Row row;
    for (int64_t c = first; c < first + count; ++c) {
      const double x =
          (value(node, c) - buffers_.at("offset")[c].item<double>()) * buffers_.at("scale")[c].item<double>();
      row.push_back(std::clamp(x, -settings_.statement_cost.clip, settings_.statement_cost.clip));
    }
    return row;
  }

  Row inputs(int64_t statement, const std::vector<Row>& loops, const std::vector<Row>& accesses) const {
    const auto width = static_cast<size_t>(settings_.statement_cost.loop_hidden);
    Row mean(width, 0.0), most(width, 0.0), first(width, 0.0), second(width, 0.0);
    for (size_t i = 0; i < loops.size(); ++i) {
      for (size_t k = 0; k < width; ++k) {
        mean[k] += loops[i][k] / static_cast<double>(loops.size());
        most[k] = i == 0 ? loops[i][k] : std::max(most[k], loops[i][k]);
      }
    }
    if (!loops.empty()) first = loops[0];
    if (loops.size() > 1) second = loops[1];
    Row all;
    for (const Row* part : {&mean, &most, &first, &second}) all.insert(all.end(), part->begin(), part->end());
    for (int64_t slot = 0; slot < Columns::kSlots; ++slot) {
      Row row;
      if (static_cast<size_t>(slot) < accesses.size()) {
        row = accesses[static_cast<size_t>(slot)];
      } else {  // an access that is not there has zeros, which are scaled like any other values
        for (int64_t c = Columns::access; c < Columns::access + Columns::kAccess; ++c) {
          const double x = -buffers_.at("offset")[c].item<double>() * buffers_.at("scale")[c].item<double>();
          row.push_back(std::clamp(x, -settings_.statement_cost.clip, settings_.statement_cost.clip));
        }
      }
      all.insert(all.end(), row.begin(), row.end());
    }
    const bool block = settings_.statement_cost.inputs.back() == configs::StatementInput::block;
    const auto names = data::loop_column_names();
    const Row own = scaled(statement, 0, Columns::kStatement);
    for (int64_t c = Columns::shape; c < Columns::kStatement; ++c) {
      const auto& name = names[static_cast<size_t>(c)];
      const bool of_block =
          name.starts_with("statement.block.") || name.starts_with("statement.vector") || name == "statement.scalar";
      if (!block || of_block) all.push_back(own[static_cast<size_t>(c)]);
    }
    return all;
  }

  Row dense(const std::string& name, int64_t layers, Row x, bool activate_last) const {
    for (int64_t layer = 0; layer < layers; ++layer) {
      const auto weight = weights_.at(name + "." + std::to_string(layer) + ".weight");
      const auto bias = weights_.at(name + "." + std::to_string(layer) + ".bias");
      Row y;
      for (int64_t o = 0; o < weight.size(0); ++o) {
        double sum = bias[o].item<double>();
        const auto row = weight[o].contiguous();
        for (int64_t i = 0; i < weight.size(1); ++i) sum += row.data_ptr<double>()[i] * x[static_cast<size_t>(i)];
        if (sum < 0 && (activate_last || layer + 1 < layers)) sum *= settings_.leaky_slope;
        y.push_back(sum);
      }
      x = std::move(y);
    }
    return x;
  }

  ModelSettings settings_;
  std::map<std::string, torch::Tensor> weights_, buffers_;
};

TEST(StatementCost, EqualsItsTwin) {
  for (const bool context : {false, true}) {
    auto settings = small_settings();
    settings.statement_cost.context = context;
    settings.statement_cost.inputs.back() =
        context ? configs::StatementInput::statement : configs::StatementInput::block;
    settings.ensemble_size = 2;
    settings.failure_output = context;
    const auto model = make(settings);
    const std::vector<int64_t> candidates = {0, 3, 50, 99, 3};
    const auto plan = plan_of(*model, candidates);
    const auto scores = model->score(plan), outputs = model->outputs_embedded(model->embed(plan), plan.group_ptr);
    EXPECT_EQ(outputs.dim(), context ? 2 : 1);
    for (size_t i = 0; i < candidates.size(); ++i) {
      const double expected =
          (Twin(*model, settings, 0).score(candidates[i]) + Twin(*model, settings, 1).score(candidates[i])) / 2;
      EXPECT_NEAR(scores[static_cast<int64_t>(i)].item<double>(), expected, 1e-9) << "candidate " << candidates[i];
      if (!context) continue;
      const double failure =
          (Twin(*model, settings, 0).failure(candidates[i]) + Twin(*model, settings, 1).failure(candidates[i])) / 2;
      EXPECT_NEAR(outputs[static_cast<int64_t>(i)][1].item<double>(), failure, 1e-9) << "candidate " << candidates[i];
    }
  }
}

TEST(StatementCost, GradientsAreThoseOfDifferences) {
  auto settings = small_settings();
  settings.statement_cost.context = true;
  const auto model = make(settings);
  const auto plan = plan_of(*model, {1, 20, 70});
  const auto weights = torch::tensor({1.0, -2.0, 0.5}, torch::kDouble);
  testing::expect_gradients([&] { return (model->score(plan) * weights).sum(); }, testing::leaves_of(*model), 1e-5, 12);
}

TEST(StatementCost, ColumnsAreScaledOverTheNodesOfTheirKind) {
  const auto model = make(small_settings());
  const auto& graphs = group().graphs;
  const int64_t column = Columns::loop + 3;  // log extent of a loop
  double sum = 0.0, squares = 0.0, count = 0.0;
  for (int64_t node = 0; node < graphs.nodes(); ++node) {
    if (graphs.node_features[node * Columns::count + Columns::loop] == 0.0F) continue;
    const double x = graphs.node_features[node * Columns::count + column];
    sum += x;
    squares += x * x;
    count += 1.0;
  }
  const double mean = sum / count, deviation = std::sqrt(squares / count - mean * mean);
  EXPECT_NEAR(model->named_buffers()["offset"][column].item<double>(), mean, 1e-5 * std::abs(mean));
  EXPECT_NEAR(model->named_buffers()["scale"][column].item<double>(), 1.0 / (deviation + 1e-3), 1e-4 / deviation);
}

TEST(StatementCost, MembersAreTrainedApartAndTheirMeanIsTheScore) {
  auto settings = small_settings();
  settings.ensemble_size = 3;
  const auto model = make(settings);
  const auto plan = plan_of(*model, {0, 1, 2, 3});
  const auto members = model->member_scores(plan);
  ASSERT_EQ(members.size(), 3U);
  EXPECT_FALSE(torch::allclose(members[0], members[1]));
  EXPECT_TRUE(torch::allclose((members[0] + members[1] + members[2]) / 3.0, model->score(plan)));
  members[1].sum().backward();
  for (const auto& parameter : model->named_parameters()) {
    const bool own = parameter.key().starts_with("members.1.");
    const auto& gradient = parameter.value().grad();
    EXPECT_EQ(gradient.defined() && gradient.abs().sum().item<double>() > 0, own) << parameter.key();
  }
}

TEST(StatementCost, OtherModelsCanChooseLoopColumnsByName) {
  configs::ModelSettings settings;
  settings.type = configs::ModelType::mlp;
  settings.readout = {configs::ReadoutPart::sum};
  settings.features.columns = {"loop.extent", "access.*"};
  EXPECT_NO_THROW(make_model(settings, schema()));
  settings.features.columns = {"loop.extents"};
  EXPECT_THAT(testing::message_of<ModelError>([&] { make_model(settings, schema()); }),
              ::testing::HasSubstr("is it loop.extent?"));
}

TEST(StatementCost, OtherGraphsAndSettingsAreRefused) {
  const auto message = [](const ModelSettings& settings, const InputSchema& of) {
    return testing::message_of<ModelError>([&] { make_model(settings, of); });
  };
  EXPECT_THAT(message(small_settings(), {data::CandidateKind::program, 26, data::kTirTypes}),
              ::testing::HasSubstr("data.representation to loops"));
  auto settings = small_settings();
  settings.statement_cost.inputs = {configs::StatementInput::block, configs::StatementInput::loops,
                                    configs::StatementInput::statement};
  EXPECT_MESSAGE(message(settings, schema()));
  settings.statement_cost.inputs = {};
  EXPECT_THAT(message(settings, schema()), ::testing::HasSubstr("empty"));
  ModelSettings layouts;
  layouts.failure_output = true;
  EXPECT_MESSAGE(message(layouts, {data::CandidateKind::layout, data::kHloFeatures, data::kHloOpcodes}));
}

}  // namespace
}  // namespace foretime::models
