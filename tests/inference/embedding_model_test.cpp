#include "inference/selection/embedding_model.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "inference/scoring/graph_scorer.h"
#include "inference/scoring/program_scorer.h"
#include "tests/inference/small_models.h"

namespace foretime::inference::testing {
namespace {

std::vector<float> scores_of(const Bundle& bundle, const SampleWorkload& workload) {
  return WorkloadScorer(model_of(bundle), workload.compute_dag).score(views(workload.records)).scores;
}

TEST(EmbeddingModel, ScoresAreThoseOfTheBundle) {
  const auto workload = sample_workload(40);
  for (const auto& bundle :
       {statement_cost_bundle(1), statement_cost_bundle(3), loops_bundle(), loops_bundle(true, false, true)}) {
    const EmbeddingModel model(bundle);
    Matrix rows;
    const auto scores =
        WorkloadScorer(model.model(), workload.compute_dag).score(views(workload.records), &rows).scores;
    EXPECT_EQ(scores, scores_of(bundle, workload));
    EXPECT_EQ(rows.rows, 40);
    ASSERT_TRUE(model.has_hidden_states());
    const auto members = model.member_scores(rows);
    ASSERT_EQ(members.size(), model.members());
    std::vector<float> mean(scores.size(), 0.0F);
    for (const auto& of_member : members) {
      for (size_t i = 0; i < mean.size(); ++i) mean[i] += of_member[i] / static_cast<float>(members.size());
    }
    expect_near(mean, scores);
  }
}

TEST(EmbeddingModel, HiddenStatesOfTheStatementModelAreTheGradientOfTheLastLayer) {
  const auto workload = sample_workload(30);
  const auto bundle = statement_cost_bundle(3);
  const EmbeddingModel model(bundle);
  EXPECT_EQ(model.members(), 3U);
  Matrix rows;
  WorkloadScorer(model.model(), workload.compute_dag).score(views(workload.records), &rows);
  const auto states = model.hidden_states(rows);
  const auto members = model.member_scores(rows);
  ASSERT_EQ(states.size(), 3U);
  for (size_t m = 0; m < states.size(); ++m) {
    const auto name = "members." + std::to_string(m) + ".cost";
    const auto width = static_cast<size_t>(states[m].columns);
    EXPECT_EQ(width, bundle.weights.at(name).values.size());
    for (size_t c = 0; c < width; ++c) {
      constexpr float kStep = 1e-2F;
      std::vector<std::vector<float>> moved;
      for (const float step : {kStep, -kStep}) {
        auto other = bundle;
        other.weights.at(name).values[c] += step;
        const EmbeddingModel nudged(other);
        Matrix of_other;
        WorkloadScorer(nudged.model(), workload.compute_dag).score(views(workload.records), &of_other);
        moved.push_back(nudged.member_scores(of_other)[m]);
      }
      for (int64_t i = 0; i < states[m].rows; ++i) {
        const auto at = static_cast<size_t>(i);
        const float gradient = (moved[0][at] - moved[1][at]) / (2.0F * kStep), found = states[m].row(i)[c];
        EXPECT_NEAR(found, gradient, 5e-3F * (1.0F + std::abs(gradient))) << name << ' ' << c;
      }
    }
  }
  EXPECT_NE(members[0], members[1]);
}

TEST(EmbeddingModel, GraphsAreEmbeddedAsTheyAreScored) {
  for (const auto& [bundle, kind] :
       {std::pair{layout_bundle(), data::CandidateKind::layout}, std::pair{tile_bundle(), data::CandidateKind::tile}}) {
    auto group = small_graph(kind, 30, 5, 1);
    group.candidates = 12;
    group.runtimes = std::vector<double>(12, 0.0);
    if (kind == data::CandidateKind::layout) {
      auto coded = code_layouts(group.layout.nodes, random_layouts(12, 5, 2), 12);
      group.layout = std::move(coded.layout);
    } else {
      group.tile_features = random_tiles(12, 2);
    }
    const EmbeddingModel model(bundle);
    Matrix rows;
    const auto scores = score_group_with_rows(*model.model(), group, rows);
    EXPECT_EQ(scores, model_of(bundle)->score_group(group));
    EXPECT_EQ(model.hidden_states(rows).front().values.size(), static_cast<size_t>(rows.size()));
    expect_near(model.member_scores(rows).front(), scores);
  }
}

TEST(EmbeddingModel, AFormThatIsNotKnownHasNoHiddenStates) {
  auto bundle = statement_cost_bundle(1);
  auto& embed = bundle.manifest["graph"]["embed"];
  EXPECT_TRUE(EmbeddingModel(bundle).has_hidden_states());
  // The score is what a pool gives: there is no sum of costs over it.
  for (size_t i = 0; i < embed.size(); ++i) {
    if (embed[i].value("op", "") == "pool" && embed[i].value("mode", "") == "max")
      bundle.manifest["graph"]["embedded"] = embed[i]["result"];
  }
  EXPECT_FALSE(EmbeddingModel(bundle).has_hidden_states());
}

}  // namespace
}  // namespace foretime::inference::testing
