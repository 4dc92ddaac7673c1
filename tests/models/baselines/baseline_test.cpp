/// The XGBoost baseline: gradients against their plain formulas, the wrapper, and the published figures.
#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "bench/xgboost_rows.h"
#include "metrics/metrics.h"
#include "models/baselines/program_rows.h"
#include "models/baselines/runtime_model.h"
#include "models/baselines/throughput_model.h"
#include "models/graph/error.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/npz_writer.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"

namespace foretime::models {
namespace {

using testing::data_dir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Programs whose throughput is a sum over statements of a rule that trees can learn; each workload has its own scale.
ProgramRows made_up_rows(int32_t workloads, int64_t programs, uint32_t seed) {
  std::mt19937 random(seed);
  const auto uniform = [&] { return static_cast<float>(random() % 1000) / 1000.0f; };
  ProgramRows rows;
  rows.columns = 3;
  for (int32_t w = 0; w < workloads; ++w) {
    rows.workload_names.push_back(fmt::format("w{}", w));
    for (int64_t p = 0; p < programs; ++p) {
      double speed = 0.1;
      for (uint32_t statements = 1 + random() % 3; statements > 0; --statements) {
        const float a = uniform(), b = uniform(), c = uniform();
        rows.features.insert(rows.features.end(), {a, b, c});
        speed += (a > 0.5f ? 1.0 : 0.3) * static_cast<double>(b);
      }
      rows.row_ptr.push_back(static_cast<int64_t>(rows.features.size()) / rows.columns);
      rows.workload.push_back(w);
      rows.runtimes.push_back((1.0 + w) / speed);
    }
  }
  return rows;
}

/// The pairwise loss as its header has it.
double pairs_loss(const std::vector<double>& scores, const std::vector<double>& y,
                  const std::vector<int32_t>& workloads) {
  double loss = 0.0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const auto size = std::count(workloads.begin(), workloads.end(), workloads[i]);
    for (size_t j = 0; j < scores.size(); ++j) {
      if (workloads[i] == workloads[j] && y[i] > y[j])
        loss += (y[i] - y[j]) * std::log1p(std::exp(scores[j] - scores[i])) / static_cast<double>(size);
    }
  }
  return loss;
}

TEST(BaselineGradient, PairsAreTheDerivativesOfTheLoss) {
  const std::vector<double> scores = {0.3, -1.2, 2.0, 0.3, 0.7, -0.4}, y = {1.0, 0.4, 0.4, 0.9, 1.0, 0.2};
  const std::vector<int32_t> workloads = {0, 2, 0, 2, 0, 2};
  const auto gradient = pairs_gradient(scores, y, workloads);
  const double h = 1e-4;
  for (size_t i = 0; i < scores.size(); ++i) {
    auto above = scores, below = scores;
    above[i] += h;
    below[i] -= h;
    const double up = pairs_loss(above, y, workloads), down = pairs_loss(below, y, workloads);
    EXPECT_NEAR(gradient.first[i], (up - down) / (2 * h), 1e-7);
    EXPECT_NEAR(gradient.second[i], (up - 2 * pairs_loss(scores, y, workloads) + down) / (h * h), 1e-5);
  }
}

TEST(BaselineGradient, FarScoresStayFinite) {
  const std::vector<double> scores = {-5000.0, 5000.0}, y = {1.0, 0.5};
  const auto gradient = pairs_gradient(scores, y, std::vector<int32_t>{0, 0});
  EXPECT_NEAR(gradient.first[0], -0.25, 1e-12);
  EXPECT_NEAR(gradient.first[1], 0.25, 1e-12);
  EXPECT_GE(gradient.second[0], 0.0);
}

TEST(BaselineGradient, SquaresAreWeightedByThroughput) {
  const std::vector<double> scores = {0.5, 2.0}, y = {1.0, 0.25};
  const auto plain = squares_gradient(scores, y, false), weighted = squares_gradient(scores, y, true);
  EXPECT_THAT(plain.first, ElementsAre(-0.5, 1.75));
  EXPECT_THAT(plain.second, ElementsAre(1.0, 1.0));
  EXPECT_THAT(weighted.first, ElementsAre(-0.5, 0.4375));
  EXPECT_THAT(weighted.second, ElementsAre(1.0, 0.25));
}

TEST(BaselineRows, AggregatesAndThroughputs) {
  ProgramRows rows;
  rows.columns = 2;
  rows.features = {1, -5, 3, -7, 4, 8};
  rows.row_ptr = {0, 2, 3};
  rows.workload = {0, 0};
  rows.runtimes = {4.0, 2.0};
  rows.workload_names = {"w"};
  EXPECT_THAT(normalized_throughputs(rows), ElementsAre(0.5, 1.0));
  const auto whole = aggregated(rows);
  EXPECT_EQ(whole.columns, 7);
  EXPECT_THAT(whole.features, ElementsAre(4, -12, 3, -5, 2, -6, 2, 4, 8, 4, 8, 4, 8, 1));
  const auto second = select(rows, {1});
  EXPECT_THAT(second.features, ElementsAre(4, 8));
  EXPECT_THAT(normalized_throughputs(second), ElementsAre(1.0));
}

class BaselinePresets : public ::testing::TestWithParam<const char*> {};

/// Each loss learns the rule and ranks workloads that it has not seen; the same seed gives the same model.
TEST_P(BaselinePresets, LearnsAndIsRepeatable) {
  const auto train = made_up_rows(12, 60, 1), test = made_up_rows(5, 40, 2);
  auto settings = throughput_preset(GetParam());
  settings.rounds = 60;
  const auto model = ThroughputModel::train(train, settings);
  const auto predicted = model.predict(test);
  std::vector<double> lower;
  for (const double throughput : predicted) lower.push_back(-throughput);
  EXPECT_GT(rank_programs(test, lower).kendall_tau, 0.75);
  EXPECT_EQ(ThroughputModel::train(train, settings).predict(test), predicted);
  auto narrow = test;
  narrow.columns = 1;
  EXPECT_THROW(model.predict(narrow), ModelError);
}

INSTANTIATE_TEST_SUITE_P(All, BaselinePresets, ::testing::Values("tvm", "squares", "pairs", "regression", "ranking"));

TEST(Booster, RefusesWhatDoesNotFit) {
  const std::vector<float> features = {1, 2, 3, 4, 5, 6};
  EXPECT_THROW(BoosterMatrix(features, 4), ModelError);
  EXPECT_THROW(BoosterMatrix({}, 4), ModelError);
  BoosterMatrix matrix(features, 3);
  EXPECT_THROW(matrix.set_labels(features), ModelError);
  Booster booster({}, matrix);
  EXPECT_THROW(booster.boost(matrix, std::vector<float>{1}, std::vector<float>{1, 1}), ModelError);
  EXPECT_THROW(throughput_preset("none"), ModelError);
}

TEST(BaselineRows, BadFilesAreNamed) {
  testing::Scratch scratch;
  const auto file = scratch.path() / "features.npz";
  const auto error = [&](std::vector<int64_t> ptr, std::vector<double> y, std::vector<int64_t> task) {
    foretime::testing::NpzWriter writer(file);
    writer.add("X", {3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6});
    writer.add("ptr", {static_cast<int64_t>(ptr.size())}, ptr);
    writer.add("y", {static_cast<int64_t>(y.size())}, y);
    writer.add("task", {static_cast<int64_t>(task.size())}, task);
    writer.close();
    return testing::message_of<DataError>([&] { read_statement_rows(file); });
  };
  EXPECT_EQ(error({0, 1, 3}, {1.0, 2.0}, {0, 1}), "no exception");
  EXPECT_MESSAGE(error({0, 1, 4}, {1.0, 2.0}, {0, 1}));
  EXPECT_MESSAGE(error({0, 0, 3}, {1.0, 2.0}, {0, 1}));
  EXPECT_MESSAGE(error({0, 1, 3}, {1.0, 0.0}, {0, 1}));
  EXPECT_THAT(error({0, 1, 3}, {1.0}, {0, 1}), HasSubstr("y"));
  EXPECT_THAT(error({0, 1, 3}, {1.0, 2.0}, {0, 7}), HasSubstr("workload 7"));
}

TEST(RuntimeModel, SplitsByWorkloadAndShare) {
  auto rows = made_up_rows(3, 50, 3);
  const auto split = split_workloads(rows, {"w0", "w2"}, 1.0, 5), part = split_workloads(rows, {"w0", "w2"}, 0.25, 5);
  EXPECT_EQ(split.training.size(), 80u);
  EXPECT_EQ(split.validation.size(), 20u);
  EXPECT_EQ(split.test, programs_of(rows, {false, true, false}));
  EXPECT_EQ(part.training.size(), 20u);
  EXPECT_EQ(part.validation, split.validation);
  EXPECT_TRUE(std::equal(part.training.begin(), part.training.end(), split.training.begin()));
  EXPECT_THROW(split_workloads(rows, {"w9"}, 1.0, 0), ModelError);
  EXPECT_THROW(RuntimeModel::train(rows, {}, {}), ModelError);  // several rows a program
}

/// The reference, with time per operation as target, has ℓ1 .293 ms and τ .817.
TEST(BaselineFigures, Resnet18CrossWorkload) {
  FORETIME_NEEDS_DATA();
  std::vector<std::filesystem::path> programs;
  for (int c = 1; c <= 12; ++c) programs.push_back(data_dir() / "tir/resnet18_conv2d" / fmt::format("C{}.npz", c));
  const auto rows = read_loop_rows(data_dir() / "tir/resnet18_conv2d_itervar_features.npz", programs);
  EXPECT_EQ(rows.programs(), 10024);
  const auto split = split_workloads(rows, {"C1", "C2", "C4", "C8", "C9", "C12"}, 1.0, 0);
  RuntimeSettings settings;
  settings.target = RuntimeTarget::nanoseconds_per_flop;
  settings.rounds = 200;
  const auto model = RuntimeModel::train(select(rows, split.training), select(rows, split.validation), settings);
  const auto test = select(rows, split.test);
  const auto predicted = model.predict(test);
  EXPECT_NEAR(1e3 * metrics::mean_absolute_error(predicted, test.runtimes), 0.29, 0.04);
  EXPECT_NEAR(rank_programs(test, predicted).kendall_tau, 0.82, 0.03);
}

}  // namespace
}  // namespace foretime::models
