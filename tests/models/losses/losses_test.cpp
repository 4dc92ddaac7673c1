#include "models/losses/losses.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "models/gpu/launch.h"
#include "models/graph/error.h"
#include "tests/models/losses/group_loss.h"
#include "tests/support/message_of.h"

namespace foretime::models {
namespace {

using configs::LossSettings;
using foretime::testing::message_of;
using torch::Tensor;

LossSettings loss_of(const std::string& type) {
  LossSettings settings;
  settings.type = configs::choice_named<configs::LossType>(type).value();
  return settings;
}

Tensor vector(const std::vector<double>& values, torch::Dtype dtype = torch::kFloat64) {
  return torch::tensor(values, torch::dtype(dtype));
}

double value_of(const LossSettings& settings, const std::vector<double>& scores, const std::vector<double>& targets) {
  return group_loss(settings, vector(scores), vector(targets)).item<double>();
}

/// The slow, obvious twin: the definitions of losses.h as loops over plain numbers.
double loop_loss(const LossSettings& settings, const std::vector<double>& scores, const std::vector<double>& targets) {
  const size_t n = scores.size();
  if (n == 0) return 0;
  double absolute = 0, squared = 0, huber = 0, loss = 0;
  const auto ran = static_cast<double>(std::ranges::count_if(targets, [](double t) { return std::isfinite(t); }));
  for (size_t i = 0; i < n; ++i) {
    if (std::isinf(targets[i])) continue;  // it failed
    const double r = std::abs(scores[i] - targets[i]), d = settings.delta;
    absolute += r / ran;
    squared += r * r / ran;
    huber += (r <= d ? 0.5 * r * r : d * (r - 0.5 * d)) / ran;
  }
  if (settings.type == configs::LossType::listmle) {
    std::vector<size_t> left(n);
    for (size_t i = 0; i < n; ++i) left[i] = i;
    while (!left.empty()) {
      size_t fastest = 0;
      double sum = 0;
      for (size_t i = 0; i < left.size(); ++i) {
        if (targets[left[i]] < targets[left[fastest]]) fastest = i;
        sum += std::exp(-scores[left[i]] / settings.temperature);
      }
      if (std::isinf(targets[left[fastest]])) break;  // only failed ones are left
      loss -= std::log(std::exp(-scores[left[fastest]] / settings.temperature) / sum);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(fastest));
    }
  } else if (word_of(settings.type).starts_with("pairwise")) {
    int pairs = 0;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        if (!(targets[i] < targets[j])) continue;
        ++pairs;
        loss += settings.type == configs::LossType::pairwise_hinge
                    ? std::max(0.0, settings.margin - (scores[j] - scores[i]))
                    : std::log(1 + std::exp((scores[i] - scores[j]) / settings.temperature));
      }
    }
    if (pairs > 0) loss /= pairs;
  } else {
    loss = settings.type == configs::LossType::mse     ? squared
           : settings.type == configs::LossType::huber ? huber
                                                       : absolute;
  }
  return (loss + settings.mse_weight * squared + settings.huber_weight * huber) /
         (1 + settings.mse_weight + settings.huber_weight);
}

TEST(Losses, EqualHandComputedValues) {
  // Ascending targets give the order 1, 2, 0, so s = -score = (0, -1, -2) and each suffix is one sum of exponentials.
  const double e = std::exp(1.0);
  const double listmle = std::log(1 + 1 / e + 1 / (e * e)) + std::log(1 + 1 / e);
  EXPECT_NEAR(value_of(loss_of("listmle"), {2, 0, 1}, {30, 10, 20}), listmle, 1e-12);
  // Scores that are all equal make each order as likely as any: log 3!.
  EXPECT_NEAR(value_of(loss_of("listmle"), {5, 5, 5}, {30, 10, 20}), std::log(6.0), 1e-12);

  auto hinge = loss_of("pairwise_hinge");
  hinge.margin = 0.5;
  // Pairs (faster, slower): (1, 0) 0.5 - 2, (1, 2) 0.5 - 0.25, (2, 0) 0.5 - 1.75: only the middle one is above 0.
  EXPECT_NEAR(value_of(hinge, {2, 0, 0.25}, {30, 10, 20}), 0.25 / 3, 1e-12);
  EXPECT_NEAR(value_of(hinge, {0, 2}, {30, 10}), 2.5, 1e-12);

  EXPECT_NEAR(value_of(loss_of("pairwise_logistic"), {1, 1}, {30, 10}), std::log(2.0), 1e-12);
  EXPECT_NEAR(value_of(loss_of("pairwise_logistic"), {3, 1}, {10, 30}), std::log(1 + e * e), 1e-12);

  EXPECT_NEAR(value_of(loss_of("mse"), {1, 5}, {2, 2}), 5.0, 1e-12);
  EXPECT_NEAR(value_of(loss_of("l1"), {1, 5}, {2, 2}), 2.0, 1e-12);
  auto huber = loss_of("huber");
  huber.delta = 2;
  EXPECT_NEAR(value_of(huber, {1, 5}, {2, 2}), (0.5 + 2 * (3 - 1)) / 2, 1e-12);

  auto mix = loss_of("listmle");
  mix.mse_weight = 0.02;
  EXPECT_NEAR(value_of(mix, {1, 5}, {2, 3}), (std::log(1 + std::exp(-4.0)) + 0.02 * 2.5) / 1.02, 1e-12);
  mix.huber_weight = 0.5;
  mix.delta = 1;
  EXPECT_NEAR(value_of(mix, {1, 5}, {2, 3}), (std::log(1 + std::exp(-4.0)) + 0.02 * 2.5 + 0.5 * 1.0) / 1.52, 1e-12);
}

TEST(Losses, TemperatureDividesTheScores) {
  auto settings = loss_of("listmle");
  settings.temperature = 10;
  EXPECT_NEAR(value_of(settings, {20, 0, 10}, {30, 10, 20}), value_of(loss_of("listmle"), {2, 0, 1}, {30, 10, 20}),
              1e-12);
}

TEST(Losses, RightOrderCostsLessThanWrongOrder) {
  for (const std::string type : {"listmle", "pairwise_hinge", "pairwise_logistic"}) {
    EXPECT_LT(value_of(loss_of(type), {1, 2, 3}, {10, 20, 30}), value_of(loss_of(type), {3, 2, 1}, {10, 20, 30}))
        << type;
  }
}

TEST(Losses, CandidatesThatFailedStandBehindAllThatRanInNoOrder) {
  constexpr double kFailed = std::numeric_limits<double>::infinity();
  for (const std::string type : {"listmle", "pairwise_hinge", "pairwise_logistic", "mse", "huber", "l1"}) {
    auto settings = loss_of(type);
    settings.mse_weight = 0.1;
    settings.huber_weight = 0.2;
    const std::vector<double> scores = {0.5, 2, -1, 1.5, 3}, targets = {1, kFailed, -0.5, kFailed, 2};
    EXPECT_NEAR(value_of(settings, scores, targets), loop_loss(settings, scores, targets), 1e-12) << type;
    // Two groups in one batch, one of which has no failure.
    const std::vector<double> more = {1, 0}, of_more = {4, 3};
    auto all = scores, all_targets = targets;
    all.insert(all.end(), more.begin(), more.end());
    all_targets.insert(all_targets.end(), of_more.begin(), of_more.end());
    const double batch = batch_loss(settings, vector(all), vector(all_targets), {0, 5, 7}, {1.0, 2.0}).item<double>();
    EXPECT_NEAR(batch, loop_loss(settings, scores, targets) + 2 * loop_loss(settings, more, of_more), 1e-12) << type;
    // Gradients are numbers, and none where every candidate failed.
    auto leaf = vector(scores).requires_grad_();
    group_loss(settings, leaf, vector(targets)).backward();
    EXPECT_TRUE(torch::isfinite(leaf.grad()).all().item<bool>()) << type;
    leaf = vector({1, 2}).requires_grad_();
    const auto none = group_loss(settings, leaf, vector({kFailed, kFailed}));
    none.backward();
    EXPECT_EQ(none.item<double>(), 0.0) << type;
    EXPECT_EQ(leaf.grad().abs().sum().item<double>(), 0.0) << type;
  }
  for (const std::string type : {"listmle", "pairwise_logistic"})
    EXPECT_LT(value_of(loss_of(type), {1, 3}, {10, kFailed}), value_of(loss_of(type), {3, 1}, {10, kFailed})) << type;
}

TEST(Losses, ChancesOfFailureAddTheirCrossEntropy) {
  constexpr double kFailed = std::numeric_limits<double>::infinity();
  auto settings = loss_of("pairwise_logistic");
  settings.failure_weight = 0.7;
  const std::vector<double> scores = {0.5, 2, -1, 4, 1}, logits = {-2, 3, 0.5, 1, -1},
                            targets = {1, kFailed, 0.5, 2, 3};
  const auto entropy = [&](size_t first, size_t end) {
    double sum = 0;
    for (size_t i = first; i < end; ++i) {
      const double chance = 1 / (1 + std::exp(-logits[i]));
      sum -= std::log(std::isinf(targets[i]) ? chance : 1 - chance) / static_cast<double>(end - first);
    }
    return sum;
  };
  const auto outputs = torch::stack({vector(scores), vector(logits)}, 1).requires_grad_();
  const auto loss = batch_loss(settings, outputs, vector(targets), {0, 3, 3, 5}, {1.0, 1.0, 2.0});
  const auto part = [](const std::vector<double>& all, size_t first, size_t end) {
    return std::vector<double>(all.begin() + static_cast<std::ptrdiff_t>(first),
                               all.begin() + static_cast<std::ptrdiff_t>(end));
  };
  const double expected = loop_loss(settings, part(scores, 0, 3), part(targets, 0, 3)) + 0.7 * entropy(0, 3) +
                          2 * (loop_loss(settings, part(scores, 3, 5), part(targets, 3, 5)) + 0.7 * entropy(3, 5));
  EXPECT_NEAR(loss.item<double>(), expected, 1e-12);
  loss.backward();
  EXPECT_TRUE(torch::isfinite(outputs.grad()).all().item<bool>());
}

TEST(Losses, EqualTargetsAreOrderedByPositionInListsAndMakeNoPairs) {
  const double first_first = value_of(loss_of("listmle"), {0, 3}, {7, 7});
  EXPECT_NEAR(first_first, std::log(1 + std::exp(-3.0)), 1e-12);
  EXPECT_NEAR(value_of(loss_of("listmle"), {3, 0}, {7, 7}), 3 + first_first, 1e-12);
  for (const std::string type : {"pairwise_hinge", "pairwise_logistic"}) {
    EXPECT_EQ(value_of(loss_of(type), {3, 0}, {7, 7}), 0.0) << type;
    EXPECT_NEAR(value_of(loss_of(type), {3, 0, 1}, {7, 7, 9}), loop_loss(loss_of(type), {3, 0, 1}, {7, 7, 9}), 1e-12);
  }
}

TEST(Losses, TargetsThatFloat32WouldMergeKeepTheirOrder) {
  const auto scores = vector({0, 4}, torch::kFloat32);
  const auto targets = vector({16777217.0, 16777216.0});
  EXPECT_NEAR(group_loss(loss_of("listmle"), scores, targets).item<double>(), 4 + std::log(1 + std::exp(-4.0)), 1e-6);
  EXPECT_NEAR(group_loss(loss_of("pairwise_hinge"), scores, targets).item<double>(), 4.1, 1e-6);
}

class EachLoss : public ::testing::TestWithParam<std::string> {
 protected:
  LossSettings settings() const {
    auto settings = loss_of(GetParam());
    settings.temperature = 1.7;
    settings.margin = 0.4;
    settings.delta = 0.8;
    return settings;
  }
};

TEST_P(EachLoss, EqualsItsLoopTwin) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> few(0, 5), length(1, 40);
  for (int round = 0; round < 50; ++round) {
    std::vector<double> scores(static_cast<size_t>(length(random))), targets(scores.size());
    for (auto& score : scores) score = normal(random);
    for (auto& target : targets) target = round % 2 ? few(random) : normal(random);
    auto mixed = settings();
    if (round % 3 == 0) mixed.mse_weight = 0.3;
    if (round % 2 == 0) mixed.huber_weight = 0.2;
    EXPECT_NEAR(value_of(mixed, scores, targets), loop_loss(mixed, scores, targets), 1e-10) << "round " << round;
  }
}

TEST_P(EachLoss, GradientsEqualFiniteDifferences) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  std::vector<double> scores(12), targets(12);
  for (auto& score : scores) score = normal(random);
  for (size_t i = 0; i < targets.size(); ++i) targets[i] = i % 4 == 0 ? 0.5 : normal(random);
  auto mixed = settings();
  mixed.mse_weight = 0.1;
  auto leaf = vector(scores).requires_grad_(true);
  group_loss(mixed, leaf, vector(targets)).backward();
  const double h = 1e-6;
  for (size_t i = 0; i < scores.size(); ++i) {
    auto up = scores, down = scores;
    up[i] += h;
    down[i] -= h;
    const double slope = (value_of(mixed, up, targets) - value_of(mixed, down, targets)) / (2 * h);
    EXPECT_NEAR(leaf.grad()[static_cast<int64_t>(i)].item<double>(), slope, 1e-7) << "score " << i;
  }
}

TEST_P(EachLoss, SingleAndEmptyGroupsTakePartInBackward) {
  const bool ranking = GetParam() == "listmle" || GetParam().starts_with("pairwise");
  for (const int64_t n : {0, 1}) {
    auto scores = torch::full({n}, 3.0, torch::kFloat32).requires_grad_(true);
    const auto loss = group_loss(settings(), scores, torch::ones({n}, torch::kFloat64));
    EXPECT_EQ(loss.scalar_type(), torch::kFloat32);
    EXPECT_EQ(loss.dim(), 0);
    if (ranking || n == 0) {
      EXPECT_EQ(loss.item<float>(), 0.0f);
    }
    loss.backward();
    ASSERT_TRUE(scores.grad().defined());
    if (ranking) {
      EXPECT_TRUE(torch::equal(scores.grad(), torch::zeros({n})));
    }
  }
}

TEST_P(EachLoss, ExtremeScoresStayFinite) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    auto scores = vector({1e4, -1e4, 0, 1e4, -1e4, 9999}, dtype).requires_grad_(true);
    const auto loss = group_loss(settings(), scores, vector({1, 2, 3, 4, 5, 6}));
    loss.backward();
    EXPECT_TRUE(torch::isfinite(loss).item<bool>());
    EXPECT_TRUE(torch::isfinite(scores.grad()).all().item<bool>()) << scores.grad();
  }
}

INSTANTIATE_TEST_SUITE_P(All, EachLoss,
                         ::testing::Values("listmle", "pairwise_hinge", "pairwise_logistic", "mse", "huber", "l1"),
                         [](const auto& info) { return info.param; });

TEST(Losses, ExtremeScoresHaveTheRightValueAndGradient) {
  // The faster one scored 2e4 too high: the loss is that gap, its gradients are 1 and -1.
  for (const std::string type : {"listmle", "pairwise_logistic"}) {
    auto scores = vector({1e4, -1e4}, torch::kFloat32).requires_grad_(true);
    const auto loss = group_loss(loss_of(type), scores, vector({1, 2}));
    loss.backward();
    EXPECT_EQ(loss.item<float>(), 2e4f) << type;
    EXPECT_NEAR(scores.grad()[0].item<double>(), 1.0, 1e-3) << type;
    EXPECT_NEAR(scores.grad()[1].item<double>(), -1.0, 1e-3) << type;
  }
}

TEST(BatchLoss, IsTheWeightedSumOverGroups) {
  const auto settings = loss_of("listmle");
  auto scores = vector({0.3, -1, 2, 0.5, 0.7, 1}).requires_grad_(true);
  const auto targets = vector({3, 2, 1, 5, 5, 4});
  const auto batch = batch_loss(settings, scores, targets, {0, 3, 3, 6}, {0.25, 2.0, 0.5});
  const double expected =
      0.25 * value_of(settings, {0.3, -1, 2}, {3, 2, 1}) + 0.5 * value_of(settings, {0.5, 0.7, 1}, {5, 5, 4});
  EXPECT_NEAR(batch.item<double>(), expected, 1e-12);
}

TEST(BatchLoss, OfManyUnevenGroupsIsThatOfEachAlone) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (const std::string type : {"listmle", "pairwise_hinge", "pairwise_logistic", "mse", "huber", "l1"}) {
    auto settings = loss_of(type);
    settings.mse_weight = 0.1;
    std::vector<double> scores, targets, weights;
    std::vector<int64_t> group_ptr = {0};
    double expected = 0;
    for (const size_t size : {3, 200, 0, 1, 90, 5, 40, 2, 199, 33, 7}) {
      std::vector<double> own_scores(size), own_targets(size);
      for (auto& score : own_scores) score = normal(random);
      for (auto& target : own_targets) target = std::floor(4 * normal(random)) / 4;
      if (size % 5 == 0 && size > 0) own_targets[size / 2] = std::numeric_limits<double>::infinity();
      weights.push_back(size == 5 ? 0.0 : 1.0 / static_cast<double>(size + 1));
      expected += weights.back() * loop_loss(settings, own_scores, own_targets);
      scores.insert(scores.end(), own_scores.begin(), own_scores.end());
      targets.insert(targets.end(), own_targets.begin(), own_targets.end());
      group_ptr.push_back(static_cast<int64_t>(scores.size()));
    }
    auto all = vector(scores).requires_grad_(true);
    const auto loss = batch_loss(settings, all, vector(targets), group_ptr, weights);
    EXPECT_NEAR(loss.item<double>(), expected, 1e-9) << type;
    loss.backward();
    for (size_t g = 0; g + 1 < group_ptr.size(); ++g) {
      const auto part = [&](const Tensor& of) { return of.slice(0, group_ptr[g], group_ptr[g + 1]); };
      auto alone = part(all).detach().clone().requires_grad_(true);
      (weights[g] * group_loss(settings, alone, part(vector(targets)))).backward();
      EXPECT_TRUE(torch::allclose(part(all.grad()), alone.grad(), 1e-10, 1e-12)) << type << ", group " << g;
    }
  }
}

TEST(BatchLoss, PaddingGroupsAddNothingWhateverTheyHold) {
  auto scores = vector({std::nan(""), 1, 2}).requires_grad_(true);
  const auto loss = batch_loss(loss_of("listmle"), scores, vector({1, 2, 3}), {0, 1, 3}, {0.0, 1.0});
  loss.backward();
  EXPECT_NEAR(loss.item<double>(), std::log(1 + std::exp(-1.0)), 1e-12);
  EXPECT_EQ(scores.grad()[0].item<double>(), 0.0);

  auto padding = vector({1, 2}).requires_grad_(true);
  const auto nothing = batch_loss(loss_of("mse"), padding, vector({5, 6}), {0, 2}, {0.0});
  nothing.backward();
  EXPECT_EQ(nothing.item<double>(), 0.0);
  EXPECT_TRUE(torch::equal(padding.grad(), torch::zeros({2}, torch::kFloat64)));
}

TEST(BatchLoss, RefusesWhatDoesNotFit) {
  const auto scores = vector({1, 2}), targets = vector({1, 2});
  EXPECT_THROW(group_loss(loss_of("mse"), scores, vector({1})), BrokenInvariant);
  EXPECT_THROW(batch_loss(loss_of("mse"), scores, targets, {0, 1}, {1.0}), BrokenInvariant);
  EXPECT_THROW(batch_loss(loss_of("mse"), scores, targets, {0, 3, 2}, {1.0, 1.0}), BrokenInvariant);
}

TEST(Losses, NoRowIsScannedAloneOnAGpu) {
  // CUDA's scan of a lone row does not repeat itself bit by bit.
  const gpu::GpuKernelsOnCpu on_gpu_kernels;
  static std::vector<std::vector<int64_t>> scanned;
  scanned.clear();
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
        if (std::string(function.name()) == "aten::logcumsumexp")
          scanned.push_back(function.inputs()[0].toTensor().sizes().vec());
        return nullptr;
      }).needsInputs(true));
  auto scores = vector({3, 1, 2, 5}).requires_grad_();
  const std::vector<double> targets = {4, 2, 1, 3};
  const auto loss = group_loss(loss_of("listmle"), scores, vector(targets));
  loss.backward();
  at::removeCallback(handle);
  ASSERT_EQ(scanned.size(), 2U);
  for (const auto& sizes : scanned) EXPECT_GT(sizes[0], 1);
  EXPECT_NEAR(loss.item<double>(), loop_loss(loss_of("listmle"), {3, 1, 2, 5}, targets), 1e-12);
}

}  // namespace
}  // namespace foretime::models
