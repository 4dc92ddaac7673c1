#include "worker/state/weight_average.h"

#include <cmath>
#include <stdexcept>

#include <gmock/gmock.h>

#include "comm/backends/factory.h"
#include "coordinator/checkpoint_store.h"
#include "models/layers/layers.h"
#include "models/safetensors.h"
#include "tests/support/message_of.h"
#include "tests/support/thread_group.h"
#include "tests/worker/samples.h"
#include "tests/worker/training_run.h"
#include "worker/evaluation/evaluation_run.h"
#include "worker/state/training_state.h"

namespace foretime::worker {
namespace {

/// A weight, a buffer as a normalisation has it, and one that counts.
class ToyModel : public models::CostModel {
 public:
  ToyModel() : CostModel(models::ModelGraph{}, {}) {
    weight = register_parameter("weight", torch::zeros({3, 2}));
    running = register_buffer("running", torch::zeros({4}, torch::kDouble));
    batches = register_buffer("batches", torch::zeros({}, torch::kLong));
  }
  /// New weights, as an optimiser step leaves them.
  void move() {
    const torch::NoGradGuard no_grad;
    weight.copy_(torch::randn({3, 2}));
    running.copy_(torch::randn({4}, torch::kDouble));
    batches.add_(1);
  }

  torch::Tensor weight, running, batches;
};

configs::AveragingSettings ema(double decay, double start = 0) {
  return {.type = configs::AveragingType::ema, .decay = decay, .start = start};
}
configs::AveragingSettings swa(double start, int64_t every) {
  return {.type = configs::AveragingType::swa, .start = start, .every_steps = every};
}

/// The slow reference: all weights are kept, and the mean is the sum of its definition, in float64.
struct ReferenceAverage {
  void keep(const ToyModel& model) {
    weights.push_back(model.weight.detach().to(torch::kDouble));
    running.push_back(model.running.clone());
  }
  torch::Tensor mean(const std::vector<torch::Tensor>& values, double decay) const {
    auto sum = torch::zeros_like(values.front());
    double total = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double share = std::pow(decay, static_cast<double>(values.size() - 1 - i));
      sum += share * values[i];
      total += share;
    }
    return sum / total;
  }
  std::vector<torch::Tensor> weights, running;
};

double difference(const torch::Tensor& a, const torch::Tensor& b) {
  return (a.to(torch::kDouble) - b.to(torch::kDouble)).abs().max().item<double>();
}

const torch::Tensor& tensor_of(const WeightAverage& average, const std::string& name) {
  for (const auto& [own, tensor] : average.tensors()) {
    if (own == name) return tensor;
  }
  throw std::out_of_range(name);
}

TEST(WeightAverage, IsTheDefinitionOfEachType) {
  struct Case {
    configs::AveragingSettings settings;
    int64_t first, every;  // steps that count
    double decay;          // of the reference; 1: all weigh the same
  };
  for (const auto& [settings, first, every, decay] :
       {Case{ema(0.9), 0, 1, 0.9}, Case{ema(0.0), 0, 1, 0.0}, Case{ema(0.999, 0.5), 12, 1, 0.999},
        Case{swa(0.0, 1), 0, 1, 1.0}, Case{swa(0.75, 2), 18, 2, 1.0}, Case{swa(0.3, 5), 7, 5, 1.0}}) {
    torch::manual_seed(1);
    ToyModel model;
    WeightAverage average(settings, model, 24);
    ReferenceAverage reference;
    int64_t batches = 0;
    for (int64_t step = 1; step <= 24; ++step) {
      model.move();
      average.update(step);
      if (step > first && (step - first) % every == 0) {
        reference.keep(model);
        batches = model.batches.item<int64_t>();
      }
      ASSERT_EQ(average.count(), static_cast<int64_t>(reference.weights.size()))
          << word_of(settings.type) << " step " << step;
      if (reference.weights.empty()) continue;
      EXPECT_LE(difference(tensor_of(average, "weight"), reference.mean(reference.weights, decay)), 1e-6) << step;
      EXPECT_LE(difference(tensor_of(average, "running"), reference.mean(reference.running, decay)), 1e-13) << step;
      EXPECT_EQ(tensor_of(average, "batches").item<int64_t>(), batches) << "counts are not averaged";
    }
    EXPECT_EQ(tensor_of(average, "weight").scalar_type(), torch::kFloat);
  }
}

TEST(AveragedWeights, LieInTheModelForAsLongAsTheyAreAskedFor) {
  torch::manual_seed(2);
  ToyModel model;
  WeightAverage average(ema(0.9), model, 10);
  for (int64_t step = 1; step <= 3; ++step) {
    model.move();
    average.update(step);
  }
  const auto weight = model.weight.detach().clone(), running = model.running.clone();
  const auto mean = tensor_of(average, "weight").clone();
  ASSERT_FALSE(torch::equal(weight, mean));
  try {
    const AveragedWeights averaged(model, &average);
    EXPECT_TRUE(torch::equal(model.weight, mean));
    EXPECT_FALSE(torch::equal(model.running, running));
    throw std::runtime_error("an evaluation that fails");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(torch::equal(model.weight, weight));
  EXPECT_TRUE(torch::equal(model.running, running));
  EXPECT_TRUE(torch::equal(tensor_of(average, "weight"), mean));
  EXPECT_TRUE(model.weight.requires_grad()) << "still a parameter";
}

TEST(AveragedWeights, WithoutAnAverageTheLastWeightsStand) {
  torch::manual_seed(3);
  ToyModel model;
  EXPECT_EQ(make_weight_average({}, model, 10), nullptr);
  WeightAverage average(swa(0.5, 1), model, 10);
  model.move();
  average.update(5);
  const auto weight = model.weight.detach().clone();
  for (const WeightAverage* none : {static_cast<const WeightAverage*>(nullptr), &std::as_const(average)}) {
    const AveragedWeights averaged(model, none);
    EXPECT_TRUE(torch::equal(model.weight, weight));
  }
}

TEST(WeightAverage, ComesBackFromItsFileAndGoesOn) {
  torch::manual_seed(4);
  ToyModel model;
  for (const auto& settings : {ema(0.99), swa(0.2, 3)}) {
    WeightAverage straight(settings, model, 40);
    for (int64_t step = 1; step <= 17; ++step) {
      model.move();
      straight.update(step);
    }
    WeightAverage resumed(settings, model, 40);
    ASSERT_TRUE(resumed.restore(straight.checkpoint_file(), "file"));
    for (int64_t step = 18; step <= 40; ++step) {
      model.move();
      straight.update(step);
      resumed.update(step);
    }
    EXPECT_TRUE(resumed.checkpoint_file() == straight.checkpoint_file()) << word_of(settings.type);
  }
}

TEST(WeightAverage, RefusesWhatIsNotItsFile) {
  ToyModel model;
  WeightAverage average(ema(0.9), model, 10), other(swa(0, 1), model, 10);
  average.update(1);
  const auto file = average.checkpoint_file();
  EXPECT_FALSE(other.restore(file, "file")) << "of another type";
  EXPECT_EQ(other.count(), 0);
  const auto refused = [&](const std::string& bytes, const std::string& why) {
    EXPECT_THAT(foretime::testing::message_of<coordinator::RunError>(
                    [&] { average.restore(bytes, "run/average.safetensors"); }),
                ::testing::AllOf(::testing::HasSubstr("run/average.safetensors"), ::testing::HasSubstr(why)));
  };
  refused(file.substr(0, file.size() - 3), "");
  refused(models::serialize_safetensors(average.tensors(), {{"type", "ema"}}), "count ''");
  for (const auto* count : {"0", "-2", "x", "3.5", "99999999999999999999"})
    refused(models::serialize_safetensors(average.tensors(), {{"type", "ema"}, {"count", count}}), "count '");
  refused(models::serialize_safetensors({{"weight", torch::zeros({3, 2})}}, {{"type", "ema"}, {"count", "1"}}),
          "another model");
  EXPECT_TRUE(average.checkpoint_file() == file) << "what was refused changes nothing";
}

/// A run whose every step leaves a checkpoint.
configs::Settings run_settings(const configs::AveragingSettings& averaging) {
  auto settings = testing::sample_settings();
  settings.averaging = averaging;
  settings.trainer.steps = 9;
  settings.optimizer.learning_rate = 0.01;
  settings.checkpoint.every_steps = 1;
  settings.checkpoint.keep_last = 20;
  return settings;
}

class AveragedRun : public testing::RunTest {
 protected:
  /// The mean of the weights after these steps, which weigh `share` of the step.
  std::map<std::string, torch::Tensor> mean_of(
      const std::string& run, const std::vector<int64_t>& steps,
      const std::function<double(int64_t)>& share = [](int64_t) { return 1.0; }) const {
    std::map<std::string, torch::Tensor> mean;
    double total = 0;
    for (const int64_t step : steps) total += share(step);
    for (const int64_t step : steps) {
      for (const auto& [name, tensor] : tensors_at(run, step)) {
        const auto value = tensor.to(torch::kDouble) * (share(step) / total);
        mean[name] = mean.contains(name) ? mean[name] + value : value;
      }
    }
    return mean;
  }
};

TEST_F(AveragedRun, HoldsTheMeanOfItsCheckpointsAndTrainsAsWithout) {
  const auto plain = train(run_settings({}), 1, "plain");
  EXPECT_FALSE(plain.files.contains(kAverageFile));
  for (const auto& averaging : {ema(0.8), swa(0.4, 2)}) {
    const std::string name = word_of(averaging.type);
    const auto run = train(run_settings(averaging), 1, name);
    EXPECT_TRUE(run.weights() == plain.weights());
    EXPECT_TRUE(run.files.at("optimizer.safetensors") == plain.files.at("optimizer.safetensors"));
    EXPECT_NE(run.metrics, plain.metrics) << "the average is what is evaluated";
    const bool is_ema = averaging.type == configs::AveragingType::ema;
    const auto average = tensors_at(name, 9, kAverageFile);
    const auto expected = is_ema ? mean_of(name, {1, 2, 3, 4, 5, 6, 7, 8, 9},
                                           [](int64_t step) { return std::pow(0.8, static_cast<double>(9 - step)); })
                                 : mean_of(name, {5, 7, 9});
    ASSERT_EQ(average.size(), expected.size());
    for (const auto& [tensor, mean] : expected) EXPECT_LE(difference(average.at(tensor), mean), 1e-6) << tensor;
    // Until the first step that counts there is no average.
    EXPECT_EQ(checkpoints(name).read(4).files.contains(kAverageFile), is_ema);
  }
}

TEST_F(AveragedRun, RunningStatisticsCountAsAllRanksAgreeOnThem) {
  auto settings = run_settings(swa(0, 1));
  settings.model.norm = configs::Norm::batch;
  train(settings, 2, "run");
  const auto expected = mean_of("run", {1, 2, 3, 4, 5, 6, 7, 8, 9});
  int64_t statistics = 0;
  for (const auto& [name, tensor] : tensors_at("run", 9, kAverageFile)) {
    if (!models::is_running_statistic(name)) continue;
    const auto& mean = expected.at(name);
    EXPECT_LE(difference(tensor, mean), 1e-5 * std::max(1.0, mean.abs().max().item<double>())) << name;
    ++statistics;
  }
  EXPECT_GT(statistics, 0);
}

TEST_F(AveragedRun, ResumingGivesTheBytesOfAStraightRun) {
  for (const auto& averaging : {ema(0.8), swa(0.4, 2)}) {
    for (const int ranks : {1, 2}) {
      const auto name = word_of(averaging.type) + std::to_string(ranks);
      const auto straight = train(run_settings(averaging), ranks, name);
      for (const int64_t step : {2, 6}) {
        const auto resumed = name + " from step " + std::to_string(step);
        leave_behind(name, resumed, step);
        const auto run = train(run_settings(averaging), ranks, resumed);
        EXPECT_TRUE(run.files == straight.files) << resumed;
        EXPECT_EQ(run.metrics, straight.metrics) << resumed;
      }
    }
  }
}

TEST_F(AveragedRun, RanksAgreeWithOneRankAlsoAfterAResume) {
  const auto settings = run_settings(ema(0.8));
  train(settings, 1, "1");
  leave_behind("1", "resumed", 4);
  const auto expected = tensors_at("1", 9, kAverageFile);
  for (const std::string name : {"2", "resumed"}) {
    train(settings, 2, name);
    const auto found = tensors_at(name, 9, kAverageFile);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [tensor, mean] : expected) EXPECT_LE(difference(found.at(tensor), mean), 1e-5) << name << tensor;
  }
}

TEST_F(AveragedRun, WhatIsLoadedLaterIsWhatWasEvaluated) {
  auto settings = run_settings(ema(0.7));
  settings.trainer.eval_every = 2;
  settings.checkpoint.every_steps = 0;
  const auto run = train(settings, 1, "run");
  const auto checkpoint = coordinator::read_checkpoint(folder("run"));  // the best one
  const auto trained = load_trained_model(checkpoint);
  const auto comm = foretime::testing::make_thread_group(1, std::chrono::seconds(60));
  const std::vector<std::string> sets = {"holdout", "valid", "test"};
  EXPECT_EQ(evaluate_trained(trained, settings, sets, *comm[0], torch::kCPU).metrics, run.metrics);
  restore_model(checkpoint, *trained.model);
  EXPECT_NE(evaluate_trained(trained, settings, sets, *comm[0], torch::kCPU).metrics, run.metrics)
      << "the last weights give other figures, so the test can fail";
}

TEST_F(AveragedRun, BeginsAnewWhereTheCheckpointHasAnotherAverage) {
  auto settings = run_settings(ema(0.8));
  settings.trainer.steps = 5;
  train(settings, 1, "before");
  settings = run_settings(swa(0, 1));
  settings.checkpoint.resume = checkpoints("before").folder(5).string();
  train(settings, 1, "after");
  const auto expected = mean_of("after", {6, 7, 8, 9});
  for (const auto& [name, tensor] : tensors_at("after", 9, kAverageFile))
    EXPECT_LE(difference(tensor, expected.at(name)), 1e-6) << name;
}

}  // namespace
}  // namespace foretime::worker
