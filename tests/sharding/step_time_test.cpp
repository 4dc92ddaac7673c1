#include "bench/step_time.h"

#include <cmath>
#include <fstream>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "configs/load.h"
#include "sharding/dataset_index.h"
#include "sharding/shard_plan.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"

namespace foretime::sharding {
namespace {

const Link kLink = {1e-6, 1e9};

TEST(AllReduce, FollowsTheFormulas) {
  // By hand: 4 ranks, 8 MB. Ring: 6 hops and 3/4 twice; tree: 2 levels up and down, everything twice.
  EXPECT_DOUBLE_EQ(ring_all_reduce_seconds(4, 8e6, kLink), 6e-6 + 12e-3);
  EXPECT_DOUBLE_EQ(tree_all_reduce_seconds(4, 8e6, kLink), 4e-6 + 16e-3);
  EXPECT_EQ(ring_all_reduce_seconds(1, 8e6, kLink), 0);
  EXPECT_EQ(tree_all_reduce_seconds(1, 8e6, kLink), 0);
}

TEST(AllReduce, TakesTreesForLittleRingsForMuchAndBothLevels) {
  Cluster cluster{.ranks_per_host = 4, .inside = kLink, .between = {1e-5, 1e8}};
  EXPECT_DOUBLE_EQ(all_reduce_seconds(4, 8e6, cluster), ring_all_reduce_seconds(4, 8e6, kLink));
  EXPECT_DOUBLE_EQ(all_reduce_seconds(64, 8, cluster),
                   tree_all_reduce_seconds(4, 8, kLink) + tree_all_reduce_seconds(16, 8, cluster.between));
  EXPECT_DOUBLE_EQ(all_reduce_seconds(8, 8e6, cluster),
                   ring_all_reduce_seconds(4, 8e6, kLink) + ring_all_reduce_seconds(2, 8e6, cluster.between));
}

TEST(AllReduce, AnExchangeOfPiecesSharesTheLinksOfHosts) {
  const Cluster cluster{.ranks_per_host = 2, .inside = kLink, .between = {1e-5, 1e8}, .message_seconds = 1e-6};
  const double bytes = 8e6;
  const auto seconds = [&](int ranks, bool bfloat16, bool by_hosts) {
    return exchange_seconds(ranks, bytes, {.exchange = true, .bfloat16 = bfloat16, .by_hosts = by_hosts}, cluster);
  };
  // By hand. One host of two: half of the bytes to the other, twice. Three hosts, six ranks: each sends 4/6 of the
  // bytes to other hosts, and so does its neighbour by the same link.
  EXPECT_EQ(seconds(1, false, false), 0);
  EXPECT_DOUBLE_EQ(seconds(2, false, true), 2 * (1e-6 + 1e-6 + 4e-3));
  EXPECT_DOUBLE_EQ(seconds(6, false, false), 2 * (1e-5 + 5e-6 + 2 * 4.0 / 6 * 8e-2));
  EXPECT_DOUBLE_EQ(seconds(6, true, false), 2 * (1e-5 + 5e-6 + 2 * 4.0 / 6 * 4e-2));
  // By hosts, 2/3 of the bytes leave each host, twice; as bfloat16 it takes more than two ranks a host.
  EXPECT_DOUBLE_EQ(seconds(6, false, true), 2 * (2e-6 + 4e-3) + 2 * (1e-5 + 2e-6 + 2.0 / 3 * 8e-2));
  EXPECT_DOUBLE_EQ(seconds(6, true, true), seconds(6, true, false));
  auto wide = cluster;
  wide.ranks_per_host = 4;
  // Half of the bytes leave each of two hosts: sums as float32, then results as bfloat16.
  EXPECT_DOUBLE_EQ(exchange_seconds(8, bytes, {.exchange = true, .bfloat16 = true, .by_hosts = true}, wide),
                   2 * (1e-6 + 3e-6 + 3e-3) + 2 * (1e-5 + 1e-6) + 4e-2 + 2e-2);
}

TEST(AllReduce, IsPredictedAsTheSettingsSay) {
  configs::CommSettings settings;
  EXPECT_FALSE(reduction_of(settings).exchange) << "auto: NCCL";
  settings.gradient_dtype = configs::GradientType::bfloat16;
  EXPECT_TRUE(reduction_of(settings).exchange && reduction_of(settings).bfloat16 && !reduction_of(settings).by_hosts);
  settings.backend = configs::Backend::mpi;
  EXPECT_TRUE(reduction_of(settings).by_hosts);
  settings.hierarchical = false;
  EXPECT_FALSE(reduction_of(settings).by_hosts);
}

PlanReport two_steps(int ranks) {
  PlanReport report;
  report.ranks = ranks;
  report.steps = {{.total = 100, .alone = 100, .heaviest_rank = 30, .heaviest_sample = 10},
                  {.total = 140, .alone = 140, .heaviest_rank = 50, .heaviest_sample = 10}};
  return report;
}

TEST(Prediction, IsTheSumOfWhatCannotOverlap) {
  Cluster cluster{.ranks_per_host = 1, .between = kLink};
  const ComputeTime compute{1e-3, 5e-3};
  // By hand: the slowest rank has 40 of cost, ideally 30; 4 buckets of 1 MB on 4 ranks.
  const double bucket = ring_all_reduce_seconds(4, 1e6, kLink), small = 2 * tree_all_reduce_seconds(4, 24, kLink);
  const auto found = predict_step(two_steps(4), compute, 4e6, 1000000, cluster);
  EXPECT_DOUBLE_EQ(found.compute_seconds, 0.045);
  EXPECT_DOUBLE_EQ(found.waiting_seconds, 0.01);
  EXPECT_DOUBLE_EQ(found.reduce_seconds, 4 * bucket);
  EXPECT_DOUBLE_EQ(found.exposed_seconds, bucket);  // the backward pass hides the others
  EXPECT_DOUBLE_EQ(found.step_seconds, 0.045 + bucket + small);
  EXPECT_DOUBLE_EQ(found.efficiency, 0.125 / (4 * found.step_seconds));
  cluster.overlap = 0;
  EXPECT_DOUBLE_EQ(predict_step(two_steps(4), compute, 4e6, 1000000, cluster).exposed_seconds, 4 * bucket);
}

TEST(Prediction, OneRankIsTheMeasure) {
  auto report = two_steps(1);
  report.steps = {{.total = 100, .alone = 100, .heaviest_rank = 100, .heaviest_sample = 10}};
  const auto found = predict_step(report, {1e-3, 5e-3}, 4e6, 1000000, Cluster());
  EXPECT_DOUBLE_EQ(found.step_seconds, 0.105);
  EXPECT_DOUBLE_EQ(found.efficiency, 1);
  EXPECT_EQ(found.reduce_seconds, 0);
}

TEST(FitCompute, FindsBothCoefficientsWhereTheDataTellThem) {
  const std::vector<double> costs = {100, 200, 400, 300}, steps = {10, 10, 10, 20};
  std::vector<double> seconds;
  for (size_t i = 0; i < costs.size(); ++i) seconds.push_back(0.002 * costs[i] + 0.03 * steps[i]);
  const auto found = fit_compute(costs, steps, seconds);
  EXPECT_NEAR(found.seconds_per_cost, 0.002, 1e-12);
  EXPECT_NEAR(found.seconds_per_step, 0.03, 1e-12);
  const auto alike = fit_compute({100, 101}, {10, 10}, {0.5, 0.5});
  EXPECT_EQ(alike.seconds_per_step, 0);
  EXPECT_NEAR(alike.seconds_per_cost, 0.005, 1e-4);
}

TEST(MeasureCompute, ReadsARunDirectory) {
  const testing::Scratch folder;
  configs::Settings settings;
  settings.data.format = configs::DataFormat::programs;
  settings.data.root = (testing::samples_dir() / "resnet18_conv2d").string();
  settings.data.train = {"C1.npz", "C12.npz"};
  settings.sampler.groups_per_batch = 2;
  settings.sampler.samples_per_group = 4;
  settings.trainer.eval_every = 30;
  const auto dataset = make_dataset_index(settings);
  const auto plan = make_shard_plan(dataset, settings, 2);
  std::ofstream(folder.path() / "config.yaml") << configs::to_yaml(settings);
  std::ofstream(folder.path() / "environment.json") << R"({"ranks": 2})";
  {
    // Steps of 1e-9 seconds per cost and 0.02 seconds exposed; the evaluation at step 30 takes an hour.
    std::ofstream metrics(folder.path() / "metrics.jsonl");
    double seconds = 0;
    for (int64_t step = 1; step <= 50; ++step) {
      seconds += 1e-9 * batch_cost(dataset, plan, 2, settings.trainer.seed, step - 1).heaviest_rank + 0.02;
      if (step == 31) seconds += 3600;
      if (step % 10 == 0) {
        metrics << fmt::format(R"({{"kind":"train","step":{},"seconds":{},"exposed_seconds":0.02}})", step, seconds)
                << '\n';
      }
    }
  }
  const auto found = measure_compute(folder.path());
  EXPECT_NEAR(found.seconds_per_cost, 1e-9, 1e-12);
  EXPECT_NEAR(found.seconds_per_step, 0, 1e-6);
  std::ofstream(folder.path() / "metrics.jsonl") << "";
  EXPECT_THROW(measure_compute(folder.path()), DataError);
}

}  // namespace
}  // namespace foretime::sharding
