#include <gtest/gtest.h>

#include "comm/backends/factory.h"
#include "coordinator/checkpoint_store.h"
#include "data/dataset/group_files.h"
#include "metrics/metrics.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks.h"
#include "tests/support/thread_group.h"
#include "tests/worker/samples.h"
#include "tests/worker/segments/segmented.h"
#include "tests/worker/training_run.h"
#include "worker/evaluation/evaluation_run.h"
#include "worker/evaluation/scoring.h"

namespace foretime::worker {
namespace {

using foretime::testing::message_of;

class EnsembleTest : public testing::RunTest {
 protected:
  EnsembleMember trained_member(const configs::Settings& settings, const std::string& name) const {
    train(settings, 1, name);
    return {name, load_trained_model(coordinator::read_checkpoint(folder(name)))};
  }
};
using JoinedEvaluation = EnsembleTest;

/// On so many ranks, as threads; what rank 0 has.
Evaluation evaluate_together(const std::vector<EnsembleMember>& members, const configs::Settings& settings, int ranks,
                             std::vector<Evaluation>* apart = nullptr) {
  std::vector<Evaluation> joined(static_cast<size_t>(ranks));
  foretime::testing::run_threads(ranks, [&](comm::Communicator& comm) {
    std::vector<Evaluation> own;
    for (const auto& member : members)
      own.push_back(evaluate_trained(member.trained, settings, {"holdout", "test"}, comm, torch::kCPU));
    joined[static_cast<size_t>(comm.rank())] = joined_evaluation(own, members.front().trained.state.schema.kind, comm);
    if (comm.rank() == 0 && apart != nullptr) *apart = own;
  });
  for (const auto& other : joined) EXPECT_EQ(other.metrics, joined.front().metrics) << "the same on every rank";
  return joined.front();
}

TEST_F(JoinedEvaluation, JoinsScoresAndMeasuresThemOnAnyNumberOfRanks) {
  // Two architectures, one of which only ranks.
  const auto settings = testing::sample_settings();
  auto sage = settings;
  sage.model.type = configs::ModelType::sage;
  sage.model.hidden = 8;
  sage.model.features.transform = configs::FeatureTransform::minmax;
  sage.loss.type = configs::LossType::listmle;
  const std::vector members = {trained_member(settings, "gcn"), trained_member(sage, "sage")};
  std::vector<Evaluation> apart;
  const auto one = evaluate_together(members, settings, 1, &apart);
  ASSERT_EQ(one.groups.size(), 3u);
  double tau = 0, groups = 0;
  for (size_t g = 0; g < one.groups.size(); ++g) {
    const auto& group = one.groups[g];
    const auto expected = metrics::joined_scores({apart[0].groups[g].scores, apart[1].groups[g].scores});
    EXPECT_EQ(group.scores.scores, expected.scores);
    EXPECT_TRUE(group.scores.predicted.empty());
    EXPECT_FALSE(group.metrics.contains("mae")) << "nothing predicts run times";
    EXPECT_EQ(group.metrics.contains("noise_ceiling_tau"), apart[0].groups[g].metrics.contains("noise_ceiling_tau"));
    if (group.set != "holdout") continue;
    tau += metrics::kendall_tau(group.scores.scores, group.runtimes);
    groups += 1;
  }
  EXPECT_NEAR(one.metrics.at("holdout/kendall_tau"), tau / groups, 1e-12);
  EXPECT_NE(one.metrics.at("holdout/kendall_tau"), apart[0].metrics.at("holdout/kendall_tau"));
  const auto three = evaluate_together(members, settings, 3);
  EXPECT_EQ(rankings_csv(three), rankings_csv(one));
  for (const auto& [name, value] : one.metrics) EXPECT_NEAR(three.metrics.at(name), value, 1e-12) << name;
}

TEST_F(JoinedEvaluation, OfOneModelTwiceIsThatModel) {
  const auto member = trained_member(testing::sample_settings(), "run");
  std::vector<Evaluation> apart;
  const auto joined = evaluate_together({member, member}, testing::sample_settings(), 1, &apart);
  for (const auto& [name, value] : apart.front().metrics)
    EXPECT_NEAR(joined.metrics.at(name), value, 1e-9 * std::max(1.0, std::abs(value))) << name;
}

TEST_F(JoinedEvaluation, RefusesDifferentCandidates) {
  const auto comm = foretime::testing::make_thread_group(1, std::chrono::seconds(60));
  Evaluation a, b;
  a.groups = {{.set = "test", .group = "g", .candidates = {0, 1}, .scores = {{1, 2}, {}}}};
  b = a;
  b.groups[0].candidates = {0, 2};
  EXPECT_THROW(joined_evaluation({a, b}, data::CandidateKind::tile, *comm[0]), coordinator::RunError);
  b.groups.clear();
  EXPECT_THROW(joined_evaluation({a, b}, data::CandidateKind::tile, *comm[0]), coordinator::RunError);
  EXPECT_EQ(joined_evaluation({a, a}, data::CandidateKind::tile, *comm[0]).groups.size(), 1u);
}

TEST_F(EnsembleTest, MembersRankWithTheGraphsOfTheirTraining) {
  auto plain = testing::segmented_settings(folder("data"));
  plain.sampler.max_segment_nodes = 0;
  auto pruned = plain, cut = plain, both = plain;
  pruned.data.prune_hops = 1;
  pruned.model.hidden = 12;
  cut.sampler.max_segment_nodes = 30;
  both.sampler.max_segment_nodes = 20;
  both.data.prune_hops = 2;
  std::vector<EnsembleMember> members;
  for (const auto& [name, settings] :
       {std::pair("plain", plain), std::pair("pruned", pruned), std::pair("cut", cut), std::pair("both", both)})
    members.push_back(trained_member(settings, name));
  const auto header = sharding::make_dataset_index(plain).entries.front().header;
  const auto group = data::load_group(header);
  std::vector<int64_t> all(static_cast<size_t>(group.candidates));
  std::iota(all.begin(), all.end(), 0);
  // What the run's own store opens for it.
  std::vector<Scores> apart;
  for (const auto& [name, trained] : members) {
    const auto& settings = trained.state.settings;
    const testing::RunParts run(settings, 1);
    const auto scorer =
        scorer_for(trained.model, {.settings = settings, .targets = trained.state.targets, .max_states = 10000});
    apart.push_back(scorer(run.store.get(0), all));
    const auto alone = Ensemble({{name, trained}}, torch::kCPU).rank(group);
    EXPECT_EQ(alone.scores.scores, apart.back().scores) << name;
  }
  const Ensemble ensemble(members, torch::kCPU);
  EXPECT_EQ(ensemble.rank(group).scores.scores, metrics::joined_scores(apart).scores);
  // The test can fail: the graph as a whole gives other scores.
  const auto& trained = members[1].trained;
  const auto whole = scorer_for(
      trained.model, {.settings = trained.state.settings, .targets = trained.state.targets, .max_states = 10000});
  EXPECT_NE(whole({.group = group}, all).scores, apart[1].scores);
}

TEST_F(EnsembleTest, RefusesMembersOfOtherInputs) {
  const auto programs = trained_member(testing::sample_settings(), "programs");
  const auto refusal = [&](const EnsembleMember& other) {
    return message_of<coordinator::RunError>([&] { check_same_inputs({programs, other}); });
  };
  EXPECT_EQ(refusal(programs), "no exception");
  const auto changed = [&](const auto& change) {
    auto other = programs;
    other.name = "other";
    change(other.trained.state);
    return refusal(other);
  };
  EXPECT_MESSAGE(changed([](auto& state) { state.schema.feature_count = 3; }), "other");
  EXPECT_NE(changed([](auto& state) { state.schema.kind = data::CandidateKind::tile; }), "no exception");
  EXPECT_NE(changed([](auto& state) { state.settings.data.representation = configs::Representation::loops; }),
            "no exception");
  EXPECT_NE(changed([](auto& state) { state.settings.data.hardware.cores = 8; }), "no exception");
}

TEST_F(EnsembleTest, KnowsWhetherCandidatesWereHeldOutByAll) {
  const auto settings = testing::sample_settings();
  std::vector<EnsembleMember> members(2);
  for (auto& member : members) member.trained.state.settings = settings;
  EXPECT_TRUE(have_equal_holdouts(members, settings));
  members[1].trained.state.settings.data.holdout = 0.5;
  EXPECT_TRUE(have_equal_holdouts(members, settings)) << "more are held out than are evaluated";
  members[1].trained.state.settings.data.holdout = 0.1;
  EXPECT_FALSE(have_equal_holdouts(members, settings));
  members[1].trained.state.settings.data.holdout = settings.data.holdout;
  members[1].trained.state.settings.trainer.seed = 2;
  EXPECT_FALSE(have_equal_holdouts(members, settings));
}

}  // namespace
}  // namespace foretime::worker
