#include "worker/state/optimizer.h"

#include <cmath>

#include <gtest/gtest.h>
#include <torch/optim.h>

#include "models/gpu/launch.h"
#include "tests/support/gpu_kernels_on_cpu.h"

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

/// One array for all parameters, on the CPU through what a GPU runs, against a step a tensor.
TEST(Adam, OfOneFlatArrayIsThatOfManyTensors) {
  if (foretime::testing::on_gpu_kernels) GTEST_SKIP() << "FORETIME_TEST_KERNELS is set";
  struct Case {
    configs::OptimizerType type;
    configs::ClipScope clip;
    double clip_norm, weight_decay;
  };
  using enum configs::OptimizerType;
  for (const auto& [type, clip, clip_norm, weight_decay] :
       {Case{adam, configs::ClipScope::global, 0, 0}, Case{adam, configs::ClipScope::global, 0.5, 0.1},
        Case{adamw, configs::ClipScope::tensor, 0.3, 0.1}, Case{adamw, configs::ClipScope::global, 1e6, 0.1}}) {
    configs::OptimizerSettings settings;
    settings.type = type;
    settings.clip = clip;
    settings.clip_norm = clip_norm;
    settings.weight_decay = weight_decay;
    auto many = two_parameters(), one = two_parameters();
    for (auto* parameters : {&many, &one}) {
      // More numbers than one item sums, and a parameter that sometimes has no gradient.
      torch::manual_seed(7);
      parameters->emplace_back("c", torch::randn({300}, torch::requires_grad()));
      parameters->emplace_back("d", torch::randn({2, 2}, torch::requires_grad()));
    }
    Adam by_tensor(many, settings), flat(one, settings);
    const auto take = [](Adam& adam, const NamedTensors& p, int step) {
      adam.zero_grad();
      auto loss = some_loss(p) + p[3].second.square().sum();
      if (step != 2) loss = loss + p[2].second.pow(3).sum();
      loss.backward();
      return adam.clip_and_step(0.01).item<double>();
    };
    for (int step = 0; step < 6; ++step) {
      const double expected = take(by_tensor, many, step);
      const gpu::GpuKernelsOnCpu on_gpu_kernels;
      const double norm = take(flat, one, step);
      EXPECT_NEAR(norm, expected, 1e-5 * expected) << "step " << step;
    }
    for (size_t i = 0; i < many.size(); ++i) {
      EXPECT_TRUE(torch::allclose(one[i].second, many[i].second, 1e-5, 1e-6)) << one[i].first;
      const auto [left, right] = std::pair(flat.moments(), by_tensor.moments());
      for (size_t m = 0; m < left.size(); ++m)
        EXPECT_TRUE(torch::allclose(left[m].second, right[m].second, 1e-4, 1e-7)) << left[m].first;
    }
    EXPECT_EQ(flat.steps(), by_tensor.steps());
  }
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
