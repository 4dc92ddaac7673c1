#include "worker/tuning/tuning.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "worker/export/bundles.h"

namespace foretime::worker {
namespace {

using ::testing::HasSubstr;

worker::TrainedModel small_model() {
  worker::TrainedModel trained;
  auto& state = trained.state;
  state.settings.data.format = configs::DataFormat::programs;
  state.settings.data.representation = configs::Representation::loops;
  state.settings.model.type = configs::ModelType::statement_cost;
  state.settings.model.hidden = 8;
  state.settings.model.statement_cost.loop_hidden = 8;
  state.settings.model.ensemble_size = 2;
  state.settings.model.statement_cost.inputs = {configs::StatementInput::loops, configs::StatementInput::block};
  state.settings.loss.type = configs::LossType::huber;
  state.schema = {data::CandidateKind::program, 205, 1};
  state.targets = {models::TargetTransform::Kind::log_runtime, 1.0, -6.25, 0.1};
  state.step = 7;
  state.data_fingerprint = 0xfedcba9876543210ULL;
  state.train_mean_runtime = 0.25;
  torch::manual_seed(3);
  trained.model = models::make_model(state.settings.model, state.schema);
  models::InputStatistics statistics;
  statistics.mean = torch::rand({205}, torch::kDouble);
  statistics.deviation = torch::rand({205}, torch::kDouble) + 1;
  statistics.minimum = -statistics.deviation;
  statistics.maximum = statistics.deviation;
  trained.model->fit_transform(statistics);
  return trained;
}

TEST(TrainedModelOfABundle, IsTheOneThatWasExported) {
  const auto trained = small_model();
  const auto bundle = make_bundle(trained, {"CC0", {{"holdout/kendall_tau", 0.5}}});
  const auto read =
      trained_model(inference::parse_bundle(inference::serialize_bundle(bundle), "model.foretime"), "model.foretime");
  const auto before = worker::model_tensors(*trained.model), after = worker::model_tensors(*read.model);
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].first, after[i].first);
    EXPECT_TRUE(before[i].second.equal(after[i].second)) << before[i].first;
  }
  EXPECT_EQ(read.state.schema, trained.state.schema);
  EXPECT_EQ(read.state.targets.kind, trained.state.targets.kind);
  EXPECT_EQ(read.state.targets.mean, -6.25);
  EXPECT_EQ(read.state.targets.deviation, 0.1);
  EXPECT_EQ(read.state.step, 7);
  EXPECT_EQ(read.state.data_fingerprint, trained.state.data_fingerprint);
  EXPECT_FALSE(read.model->is_training());
  // What goes on from it says the same of itself.
  EXPECT_EQ(make_bundle(read, {"CC0", {{"holdout/kendall_tau", 0.5}}}).manifest, bundle.manifest);
}

TEST(TrainedModelOfABundle, IsRefusedWhereSettingsAndWeightsDoNotFit) {
  const auto bundle = make_bundle(small_model(), {});
  const auto refusal = [&](const auto& change) -> std::string {
    auto other = bundle;
    change(other);
    return testing::message_of<inference::BundleError>([&] { trained_model(other, "model.foretime"); });
  };
  const auto replace = [](inference::Bundle& other, const std::string& from, const std::string& to) {
    auto yaml = other.manifest["settings"].get<std::string>();
    yaml.replace(yaml.find(from), from.size(), to);
    other.manifest["settings"] = yaml;
  };
  EXPECT_EQ(refusal([](inference::Bundle&) {}), "no exception");
  EXPECT_MESSAGE(refusal([&](inference::Bundle& b) { replace(b, "  hidden: 8", "  hidden: 9"); }),
                 "model.foretime: tensor");
  EXPECT_THAT(refusal([&](inference::Bundle& b) { replace(b, "ensemble_size: 2", "ensemble_size: 3"); }),
              HasSubstr("tensor members.2"));
  EXPECT_THAT(refusal([&](inference::Bundle& b) { replace(b, "  hidden: 8", "  hiden: 8"); }), HasSubstr("hiden"));
  EXPECT_THAT(refusal([&](inference::Bundle& b) { replace(b, "statement_cost", "abacus"); }), HasSubstr("abacus"));
  EXPECT_THAT(refusal([](inference::Bundle& b) { b.manifest["training"]["data_fingerprint"] = "x"; }),
              HasSubstr("data_fingerprint"));
}

worker::Evaluation evaluation_of(const std::vector<std::vector<double>>& scores) {
  worker::Evaluation evaluation;
  for (const auto& of_group : scores) {
    worker::GroupEvaluation group{.set = "holdout", .group = "g"};
    group.scores.scores = of_group;
    for (size_t i = 0; i < of_group.size(); ++i) group.runtimes.push_back(static_cast<double>(i));
    evaluation.groups.push_back(std::move(group));
  }
  return evaluation;
}

TEST(OrderChange, IsTheChangeOfTau) {
  const auto right = evaluation_of({{1, 2, 3, 4}}), wrong = evaluation_of({{4, 3, 2, 1}});
  auto change = order_change(right, wrong);
  EXPECT_DOUBLE_EQ(change.mean, -2);
  EXPECT_DOUBLE_EQ(change.error, 0) << "every pair says the same";
  EXPECT_DOUBLE_EQ(order_change(wrong, right).mean, 2);
  EXPECT_DOUBLE_EQ(order_change(right, right).mean, 0);
  change = order_change(right, evaluation_of({{2, 1, 3, 4}}));  // one of six pairs
  EXPECT_DOUBLE_EQ(change.mean, -1.0 / 3);
  EXPECT_GT(change.error, 1.0 / 3) << "two candidates of four are no evidence";
  change = order_change(evaluation_of({{1, 2, 3}, {1, 2}, {5}}), evaluation_of({{3, 2, 1}, {1, 2}, {5}}));
  EXPECT_DOUBLE_EQ(change.mean, -1) << "a mean over groups that can be ordered";
  EXPECT_EQ(change.groups, 2);
  EXPECT_EQ(order_change(evaluation_of({{5}}), evaluation_of({{5}})).groups, 0);
  // A pair alone has no error of its own, and is never evidence.
  change = order_change(evaluation_of({{1, 2}}), evaluation_of({{2, 1}}));
  EXPECT_DOUBLE_EQ(change.mean, -2);
  EXPECT_DOUBLE_EQ(change.error, 2);
}

/// What the jackknife says against the deviation over many draws.
TEST(OrderChange, KnowsItsError) {
  std::mt19937 random(5);
  std::normal_distribution<double> noise(0, 6);
  double sum = 0, squares = 0, errors = 0;
  constexpr int kDraws = 400;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<double> first(20), second(20);
    for (size_t i = 0; i < first.size(); ++i) {
      first[i] = static_cast<double>(i) + noise(random);
      second[i] = static_cast<double>(i) + noise(random);
    }
    const auto change = order_change(evaluation_of({first}), evaluation_of({second}));
    sum += change.mean;
    squares += change.mean * change.mean;
    errors += change.error;
  }
  const double mean = sum / kDraws, deviation = std::sqrt(squares / kDraws - mean * mean);
  EXPECT_NEAR(errors / kDraws / deviation, 1, 0.2);
}

TEST(TuningOutcome, TellsAJobWhatWasPublished) {
  TuningOutcome outcome;
  outcome.before = {{"holdout/kendall_tau", 0.5}};
  outcome.after = {{"holdout/kendall_tau", 0.25}};
  outcome.replay_before = {{"holdout/kendall_tau", 0.75}};
  outcome.replay_after = {{"holdout/kendall_tau", 0.625}};
  EXPECT_EQ(outcome.job_metrics(), (TuningOutcome::Metrics{{"holdout/kendall_tau", 0.25},
                                                           {"parent/kendall_tau", 0.5},
                                                           {"replay/kendall_tau", 0.625},
                                                           {"kept_parent", 0.0}}));
  outcome.kept_parent = true;
  EXPECT_EQ(outcome.job_metrics(), (TuningOutcome::Metrics{{"holdout/kendall_tau", 0.5},
                                                           {"parent/kendall_tau", 0.5},
                                                           {"replay/kendall_tau", 0.75},
                                                           {"kept_parent", 1.0}}));
}

}  // namespace
}  // namespace foretime::worker
