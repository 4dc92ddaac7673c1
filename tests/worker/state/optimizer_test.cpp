#include "worker/state/optimizer.h"

#include <cmath>

#include <gtest/gtest.h>
#include <torch/optim.h>

namespace foretime::worker {
namespace {

NamedTensors two_parameters() {
  torch::manual_seed(3);
  return {{"a", torch::randn({4, 3}, torch::requires_grad())}, {"b", torch::randn({5}, torch::requires_grad())}};
}

torch::Tensor some_loss(const NamedTensors& p) {
  return (p[0].second.sin().sum(1) * p[0].second.pow(2).sum()).sum() + p[1].second.pow(4).sum();
}

class AgainstLibTorch : public ::testing::TestWithParam<std::pair<std::string, double>> {};

TEST_P(AgainstLibTorch, TwentyStepsAgree) {
  const auto& [type, decay] = GetParam();
  const auto ours = two_parameters(), theirs = two_parameters();
  configs::OptimizerSettings settings;
  settings.type = configs::choice_named<configs::OptimizerType>(type).value();
  settings.weight_decay = decay;
  settings.learning_rate = 0.05;
  Adam adam(ours, settings);
  const std::vector<torch::Tensor> list = {theirs[0].second, theirs[1].second};
  std::unique_ptr<torch::optim::Optimizer> peer;
  if (type == "adam") {
    peer = std::make_unique<torch::optim::Adam>(list, torch::optim::AdamOptions(0.05).weight_decay(decay));
  } else {
    peer = std::make_unique<torch::optim::AdamW>(list, torch::optim::AdamWOptions(0.05).weight_decay(decay));
  }
  for (int i = 0; i < 20; ++i) {
    adam.zero_grad();
    some_loss(ours).backward();
    adam.step(settings.learning_rate);
    peer->zero_grad();
    some_loss(theirs).backward();
    peer->step();
  }
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(torch::allclose(ours[i].second, theirs[i].second, 1e-5, 1e-6)) << ours[i].first;
}
INSTANTIATE_TEST_SUITE_P(Kinds, AgainstLibTorch,
                         ::testing::Values(std::pair{"adam", 0.0}, std::pair{"adam", 0.1}, std::pair{"adamw", 0.0},
                                           std::pair{"adamw", 0.1}));

TEST(Adam, GoesOnFromItsMomentsBitForBit) {
  const auto straight = two_parameters(), halted = two_parameters();
  configs::OptimizerSettings settings;
  Adam a(straight, settings), b(halted, settings);
  const auto steps = [&](Adam& adam, const NamedTensors& p, int count) {
    for (int i = 0; i < count; ++i) {
      adam.zero_grad();
      some_loss(p).backward();
      adam.step(0.01);
    }
  };
  steps(a, straight, 6);
  steps(b, halted, 3);
  Adam c(halted, settings);
  const auto moments = b.moments();
  c.restore({moments.begin(), moments.end()}, b.steps());
  steps(c, halted, 3);
  for (size_t i = 0; i < straight.size(); ++i) EXPECT_TRUE(torch::equal(straight[i].second, halted[i].second));
}

TEST(LearningRate, WarmsUpThenFollowsTheCosine) {
  configs::OptimizerSettings settings;
  settings.learning_rate = 2.0;
  settings.warmup_steps = 4;
  settings.schedule = configs::Schedule::cosine;
  settings.final_ratio = 0.1;
  EXPECT_DOUBLE_EQ(learning_rate_at(settings, 0, 104), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(settings, 3, 104), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(settings, 4, 104), 2.0);
  EXPECT_NEAR(learning_rate_at(settings, 54, 104), 2.0 * 0.55, 1e-12);
  EXPECT_NEAR(learning_rate_at(settings, 104, 104), 0.2, 1e-12);
  settings.schedule = configs::Schedule::constant;
  EXPECT_DOUBLE_EQ(learning_rate_at(settings, 90, 104), 2.0);
}

TEST(ClipGradients, ScalesAllGradientsTogether) {
  const auto p = two_parameters();
  p[0].second.mutable_grad() = torch::full({4, 3}, 2.0);
  p[1].second.mutable_grad() = torch::full({5}, -1.0);
  configs::OptimizerSettings settings;
  settings.clip = configs::ClipScope::global;
  settings.clip_norm = 0;
  const double norm = std::sqrt(12 * 4.0 + 5.0);
  EXPECT_NEAR(clip_gradients(p, settings), norm, 1e-6);
  EXPECT_NEAR(p[0].second.grad()[0][0].item<double>(), 2.0, 1e-7);
  settings.clip_norm = 1.0;
  EXPECT_NEAR(clip_gradients(p, settings), norm, 1e-6);
  EXPECT_NEAR(p[0].second.grad()[0][0].item<double>(), 2.0 / norm, 1e-6);
  EXPECT_NEAR(p[1].second.grad()[0].item<double>(), -1.0 / norm, 1e-6);
}

TEST(ClipGradients, ScalesEachGradientAlone) {
  const auto p = two_parameters();
  p[0].second.mutable_grad() = torch::full({4, 3}, 2.0);
  p[1].second.mutable_grad() = torch::full({5}, -0.1);
  configs::OptimizerSettings settings;
  settings.clip = configs::ClipScope::tensor;
  settings.clip_norm = 1.0;
  EXPECT_NEAR(clip_gradients(p, settings), std::sqrt(12 * 4.0 + 0.05), 1e-6);
  EXPECT_NEAR(p[0].second.grad().norm().item<double>(), 1.0, 1e-6);
  EXPECT_NEAR(p[1].second.grad()[0].item<double>(), -0.1, 1e-7);
}

}  // namespace
}  // namespace foretime::worker
