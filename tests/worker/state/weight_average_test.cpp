#include "worker/state/weight_average.h"

#include <cmath>
#include <stdexcept>

#include <gmock/gmock.h>

#include "comm/threads/threads.h"
#include "coordinator/checkpoint_store.h"
#include "models/layers/layers.h"
#include "models/safetensors.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"
#include "tests/worker/samples.h"
#include "tests/worker/training_run.h"
#include "worker/evaluation/evaluation_run.h"
#include "worker/state/training_state.h"

namespace foretime::worker {
namespace {

using foretime::testing::Scratch;

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

std::map<std::string, torch::Tensor> tensors_at(const std::filesystem::path& run, int64_t step,
                                                const std::string& file) {
  const auto checkpoint = coordinator::CheckpointStore(run / "checkpoints").read(step);
  return models::parse_safetensors(checkpoint.files.at(file), file).tensors;
}

TEST(AveragedRun, HoldsTheMeanOfItsCheckpointsAndTrainsAsWithout) {
  const Scratch scratch;
  const auto plain = testing::train(run_settings({}), 1, scratch.path() / "plain");
  EXPECT_FALSE(plain.files.contains(kAverageFile));
  for (const auto& averaging : {ema(0.8), swa(0.4, 2)}) {
    const auto folder = scratch.path() / word_of(averaging.type);
    const auto run = testing::train(run_settings(averaging), 1, folder);
    EXPECT_TRUE(run.files.at("model.safetensors") == plain.files.at("model.safetensors"));
    EXPECT_TRUE(run.files.at("optimizer.safetensors") == plain.files.at("optimizer.safetensors"));
    EXPECT_NE(run.metrics, plain.metrics) << "the average is what is evaluated";
    const auto average = tensors_at(folder, 9, kAverageFile);
    const bool is_ema = averaging.type == configs::AveragingType::ema;
    std::map<std::string, torch::Tensor> sums;
    double total = 0;
    for (int64_t step = 1; step <= 9; ++step) {
      if (!is_ema && step != 5 && step != 7 && step != 9) continue;
      const double share = is_ema ? std::pow(0.8, static_cast<double>(9 - step)) : 1.0;
      total += share;
      for (const auto& [name, tensor] : tensors_at(folder, step, "model.safetensors")) {
        const auto value = share * tensor.to(torch::kDouble);
        sums[name] = sums.contains(name) ? sums[name] + value : value;
      }
    }
    ASSERT_EQ(average.size(), sums.size());
    for (const auto& [name, sum] : sums) EXPECT_LE(difference(average.at(name), sum / total), 1e-6) << name;
    // Until the first step that counts there is no average.
    EXPECT_EQ(coordinator::CheckpointStore(folder / "checkpoints").read(4).files.contains(kAverageFile), is_ema);
  }
}

TEST(AveragedRun, RunningStatisticsCountAsAllRanksAgreeOnThem) {
  const Scratch scratch;
  auto settings = run_settings(swa(0, 1));
  settings.model.norm = configs::Norm::batch;
  testing::train(settings, 2, scratch.path());
  std::map<std::string, torch::Tensor> sums;
  for (int64_t step = 1; step <= 9; ++step) {
    for (const auto& [name, tensor] : tensors_at(scratch.path(), step, "model.safetensors")) {
      const auto value = tensor.to(torch::kDouble) / 9;
      sums[name] = sums.contains(name) ? sums[name] + value : value;
    }
  }
  int64_t statistics = 0;
  for (const auto& [name, tensor] : tensors_at(scratch.path(), 9, kAverageFile)) {
    if (!models::is_running_statistic(name)) continue;
    EXPECT_LE(difference(tensor, sums.at(name)), 1e-5 * std::max(1.0, sums.at(name).abs().max().item<double>()))
        << name;
    ++statistics;
  }
  EXPECT_GT(statistics, 0);
}

TEST(AveragedRun, ResumingGivesTheBytesOfAStraightRun) {
  const Scratch scratch;
  for (const auto& averaging : {ema(0.8), swa(0.4, 2)}) {
    for (const int ranks : {1, 2}) {
      const auto folder = scratch.path() / (word_of(averaging.type) + std::to_string(ranks));
      const auto straight = testing::train(run_settings(averaging), ranks, folder / "straight");
      for (const int64_t step : {2, 6}) {
        const auto resumed = folder / std::to_string(step);
        std::filesystem::copy(folder / "straight", resumed, std::filesystem::copy_options::recursive);
        const coordinator::CheckpointStore store(resumed / "checkpoints");
        for (const int64_t later : store.steps()) {
          if (later > step) std::filesystem::remove_all(store.folder(later));
        }
        const auto run = testing::train(run_settings(averaging), ranks, resumed);
        EXPECT_TRUE(run.files == straight.files) << word_of(averaging.type) << " from step " << step;
        EXPECT_EQ(run.metrics, straight.metrics);
      }
    }
  }
}

TEST(AveragedRun, RanksAgreeWithOneRankAlsoAfterAResume) {
  const Scratch scratch;
  const auto settings = run_settings(ema(0.8));
  const auto one = testing::train(settings, 1, scratch.path() / "1");
  std::filesystem::copy(scratch.path() / "1", scratch.path() / "resumed", std::filesystem::copy_options::recursive);
  const coordinator::CheckpointStore store(scratch.path() / "resumed/checkpoints");
  for (const int64_t step : store.steps()) {
    if (step > 4) std::filesystem::remove_all(store.folder(step));
  }
  const auto expected = tensors_at(scratch.path() / "1", 9, kAverageFile);
  for (const std::string folder : {"2", "resumed"}) {
    testing::train(settings, 2, scratch.path() / folder);
    const auto found = tensors_at(scratch.path() / folder, 9, kAverageFile);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, tensor] : expected) EXPECT_LE(difference(found.at(name), tensor), 1e-5) << folder << name;
  }
}

TEST(AveragedRun, WhatIsLoadedLaterIsWhatWasEvaluated) {
  const Scratch scratch;
  auto settings = run_settings(ema(0.7));
  settings.trainer.eval_every = 2;
  settings.checkpoint.every_steps = 0;
  const auto run = testing::train(settings, 1, scratch.path());
  const auto checkpoint = coordinator::read_checkpoint(scratch.path());  // the best one
  const auto trained = load_trained_model(checkpoint);
  const auto comm = comm::make_thread_group(1, std::chrono::seconds(60));
  const std::vector<std::string> sets = {"holdout", "valid", "test"};
  EXPECT_EQ(evaluate_trained(trained, settings, sets, *comm[0], torch::kCPU).metrics, run.metrics);
  restore_model(checkpoint, *trained.model);
  EXPECT_NE(evaluate_trained(trained, settings, sets, *comm[0], torch::kCPU).metrics, run.metrics)
      << "the last weights give other figures, so the test can fail";
}

TEST(AveragedRun, BeginsAnewWhereTheCheckpointHasAnotherAverage) {
  const Scratch scratch;
  auto settings = run_settings(ema(0.8));
  settings.trainer.steps = 5;
  testing::train(settings, 1, scratch.path() / "before");
  settings = run_settings(swa(0, 1));
  settings.checkpoint.resume = coordinator::CheckpointStore(scratch.path() / "before/checkpoints").folder(5).string();
  testing::train(settings, 1, scratch.path() / "after");
  std::map<std::string, torch::Tensor> sums;
  for (int64_t step = 6; step <= 9; ++step) {
    for (const auto& [name, tensor] : tensors_at(scratch.path() / "after", step, "model.safetensors")) {
      const auto value = tensor.to(torch::kDouble) / 4;
      sums[name] = sums.contains(name) ? sums[name] + value : value;
    }
  }
  for (const auto& [name, tensor] : tensors_at(scratch.path() / "after", 9, kAverageFile))
    EXPECT_LE(difference(tensor, sums.at(name)), 1e-6) << name;
}

}  // namespace
}  // namespace foretime::worker
