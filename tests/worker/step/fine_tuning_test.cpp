#include "worker/step/fine_tuning.h"

#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "coordinator/checkpoint_store.h"
#include "data/files/packed.h"
#include "models/layers/layers.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"
#include "tests/worker/samples.h"
#include "tests/worker/training_run.h"

namespace foretime::worker {
namespace {

using ::testing::ElementsAre;

using Values = std::map<std::string, torch::Tensor>;

Values values_of(const TrainedModel& trained) {
  Values values;
  for (const auto& [name, tensor] : model_tensors(*trained.model)) values[name] = tensor.clone();
  return values;
}

bool equal(const Values& a, const Values& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && x.second.equal(y.second); });
}

/// A model that was trained for a few steps on C1 and C12, to be tuned on C10.
class FineTuningTest : public testing::RunTest {
 protected:
  FineTuningTest() {
    settings_ = testing::sample_settings();
    settings_.model.norm = configs::Norm::batch;
    settings_.trainer.steps = 12;
    train(settings_, 1, "run");
  }

  TrainedModel trained() const { return load_trained_model(coordinator::read_checkpoint(folder("run"))); }
  configs::Settings new_data(double holdout = 0.2) const {
    auto settings = tuning_settings(settings_);
    settings.data.train = {settings_.data.root + "/C10.npz"};
    settings.data.holdout = holdout;
    return settings;
  }

  configs::Settings settings_;
};

TEST_F(FineTuningTest, StartsFromTheWeightsAndTransformsOfTheTraining) {
  const auto trained = this->trained();
  const auto before = values_of(trained);
  const TuningData data(trained, new_data());
  // Opening and measuring new data fits nothing to them.
  const auto ranked = data.evaluate(trained).metrics;
  fine_tune(trained, data, nullptr, {.steps = 0, .learning_rate = 0.1});
  EXPECT_TRUE(equal(before, values_of(trained)));
  EXPECT_EQ(data.evaluate(trained).metrics, ranked);
  EXPECT_GT(before.at("encoder.node_features.offset").abs().max().item<double>(), 0) << "no transform to lose";
}

TEST_F(FineTuningTest, LearnsWithoutChangingTransformsAndRunningStatistics) {
  const auto trained = this->trained();
  const auto targets = trained.state.targets;
  const auto before = values_of(trained);
  const TuningData data(trained, new_data());
  const auto ranked = data.evaluate(trained).metrics;
  struct : TrainingListener {
    void on_step(const StepEvent& event) override { losses.push_back(event.loss); }
    std::vector<double> losses;
  } listener;
  fine_tune(trained, data, nullptr, {.steps = 40, .learning_rate = 1e-3, .listener = &listener});
  EXPECT_EQ(listener.losses.size(), 40u);
  std::set<std::string> parameters;
  for (const auto& item : trained.model->named_parameters()) parameters.insert(item.key());
  int64_t statistics = 0, changed = 0;
  for (const auto& [name, value] : values_of(trained)) {
    const bool same = value.equal(before.at(name));
    statistics += models::is_running_statistic(name) ? 1 : 0;
    if (parameters.contains(name)) changed += same ? 0 : 1;
    else EXPECT_TRUE(same) << name;
  }
  EXPECT_GT(statistics, 0);
  EXPECT_GT(changed, 0);
  EXPECT_EQ(trained.state.targets.mean, targets.mean);
  EXPECT_FALSE(trained.model->is_training());
  EXPECT_LT(data.evaluate(trained).metrics.at("holdout/mae"), ranked.at("holdout/mae"));
}

TEST_F(FineTuningTest, RepeatsItself) {
  settings_.model.dropout = 0.1;  // draws numbers, which must be the same ones
  std::filesystem::remove_all(folder("run"));
  train(settings_, 1, "run");
  std::vector<Values> results;
  for (int time = 0; time < 2; ++time) {
    const auto trained = this->trained();
    const TuningData data(trained, new_data());
    fine_tune(trained, data, nullptr, {.steps = 5, .learning_rate = 1e-3});
    results.push_back(values_of(trained));
  }
  EXPECT_TRUE(equal(results[0], results[1]));
}

TEST_F(FineTuningTest, GoesOnlyAShareOfTheWay) {
  const auto whole = this->trained(), half = this->trained();
  const auto before = values_of(whole);
  const TuningData data(whole, new_data());
  fine_tune(whole, data, nullptr, {.steps = 5, .learning_rate = 1e-3});
  fine_tune(half, data, nullptr, {.steps = 5, .learning_rate = 1e-3, .interpolation_weight = 0.5});
  const auto end = values_of(whole);
  for (const auto& [name, value] : values_of(half))
    EXPECT_TRUE(value.allclose((before.at(name) + end.at(name)) / 2, 1e-5, 1e-7)) << name;
}

TEST_F(FineTuningTest, ReplayKeepsWhatWasLearned) {
  auto old_settings = tuning_settings(settings_);
  for (const auto& file : settings_.data.train) old_settings.data.train.push_back(settings_.data.root + "/" + file);
  std::map<bool, double> errors;  // on the old data, with and without replay
  for (const bool replayed : {false, true}) {
    const auto trained = this->trained();
    const TuningData fresh(trained, new_data()), old(trained, old_settings);
    fine_tune(trained, fresh, replayed ? &old : nullptr, {.steps = 40, .learning_rate = 3e-3});
    errors[replayed] = old.evaluate(trained).metrics.at("holdout/mae");
  }
  EXPECT_LT(errors.at(true), errors.at(false));
}

TEST_F(FineTuningTest, HoldsOutTheSameCandidatesWheneverTheyAreThere) {
  const auto trained = this->trained();
  const TuningData one(trained, new_data());
  auto settings = new_data();
  settings.data.train.push_back(settings_.data.root + "/C1.npz");
  const TuningData two(trained, settings);
  const auto alone = one.evaluate(trained).groups, together = two.evaluate(trained).groups;  // by name
  ASSERT_EQ(alone.size(), 1u);
  ASSERT_EQ(together.size(), 2u);
  EXPECT_EQ(together.back().group, "C10");
  EXPECT_EQ(together.back().candidates, alone.front().candidates);
}

TEST(TuningData, LeavesOutGroupsThatWouldBeHeldOutAsAWhole) {
  const foretime::testing::Scratch scratch;
  std::vector<float> distinct(400);
  std::iota(distinct.begin(), distinct.end(), 1.0F);
  const auto pack = [&](const char* name, const std::vector<data::Group>& groups) {
    data::PackedWriter writer(scratch.path() / name);
    for (const auto& group : groups) writer.add(group);
    writer.finish();
    return (scratch.path() / name).string();
  };
  const auto repeated = testing::tile_group("repeated", {1, 1, 1});  // one configuration, which falls on one side
  configs::Settings settings;
  settings.data.format = configs::DataFormat::tile;
  settings.data.holdout = 0.99;
  settings.model.type = configs::ModelType::gcn;
  settings.model.readout = {configs::ReadoutPart::mean};
  settings.data.train = {pack("two.foretime", {repeated, testing::tile_group("distinct", distinct)})};
  TrainedModel trained;
  trained.state.settings = settings;
  trained.state.schema = {data::CandidateKind::tile, 2, 4};
  trained.model = models::make_model(settings.model, trained.state.schema);
  const TuningData data(trained, settings);
  EXPECT_THAT(data.skipped_groups(), ElementsAre("repeated"));
  EXPECT_EQ(data.dataset().entries.size(), 1u);
  EXPECT_EQ(data.training_candidates() + data.heldout_candidates(), 400);
  EXPECT_GT(data.training_candidates(), 0);
  settings.data.train = {pack("one.foretime", {repeated})};
  EXPECT_MESSAGE(foretime::testing::message_of<DataError>([&] { TuningData(trained, settings); }), "repeated");
}

TEST_F(FineTuningTest, RefusesDataThatTheModelCannotRead) {
  const auto trained = this->trained();
  const auto refusal = [&](const TrainedModel& model, const configs::Settings& settings) {
    return foretime::testing::message_of<std::runtime_error>([&] { TuningData(model, settings); });
  };
  EXPECT_EQ(refusal(trained, new_data()), "no exception");
  auto other = trained;
  other.state.schema.feature_count += 1;
  EXPECT_MESSAGE(refusal(other, new_data()));
  other = trained;
  other.state.schema.node_type_count = 3;
  EXPECT_MESSAGE(refusal(other, new_data()));
  auto settings = new_data();
  settings.data.format = configs::DataFormat::tile;
  EXPECT_MESSAGE(refusal(trained, settings));
}

TEST_F(FineTuningTest, SaysWhenItDiverges) {
  const auto trained = this->trained();
  const TuningData data(trained, new_data());
  EXPECT_THROW(fine_tune(trained, data, nullptr, {.steps = 30, .learning_rate = 1e30}), coordinator::RunError);
}

}  // namespace
}  // namespace foretime::worker
