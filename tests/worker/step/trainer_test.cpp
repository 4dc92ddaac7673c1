#include "worker/step/trainer.h"

#include <filesystem>
#include <numeric>

#include <gtest/gtest.h>

#include "base/logger/logger.h"
#include "comm/backends/factory.h"
#include "data/files/packed.h"
#include "plans/symbolic_plan.h"
#include "tests/support/layout_npz.h"
#include "tests/support/synthetic_graph.h"
#include "tests/support/thread_group.h"
#include "tests/worker/samples.h"
#include "tests/worker/segments/segmented.h"
#include "tests/worker/training_run.h"

namespace foretime::worker {
namespace {

using TrainerTest = testing::RunTest;

TEST_F(TrainerTest, SameSeedGivesTheSameBytes) {
  const auto settings = testing::sample_settings();
  EXPECT_EQ(train(settings, 1, "a").files, train(settings, 1, "b").files);
}

TEST_F(TrainerTest, RanksAgreeWithOne) {
  struct Case {
    std::string name;
    int ranks;
    int64_t steps, accumulation;
  };
  for (const auto& [name, ranks, steps, accumulation] :
       {Case{"two ranks", 2, 10, 1}, Case{"more ranks than lanes, which pad", 4, 6, 1},
        // Ranks pad in different batches, the last of a step among them: gradients of the earlier ones must survive.
        Case{"accumulation", 4, 4, 3}}) {
    auto settings = testing::sample_settings();
    settings.trainer.steps = steps;
    settings.optimizer.accumulation = accumulation;
    const auto one = train(settings, 1, name + "/one"), many = train(settings, ranks, name + "/many");
    EXPECT_LE(testing::largest_difference(one, many), 1e-5) << name;
  }
}

TEST_F(TrainerTest, GradientsInBfloat16StayNearThoseInFloat32) {
  auto settings = testing::sample_settings();
  const auto full = train(settings, 2, "full"), alone = train(settings, 1, "alone");
  settings.comm.gradient_dtype = configs::GradientType::bfloat16;
  const auto rounded = train(settings, 2, "rounded");
  const double difference = testing::largest_difference(full, rounded);
  // Adam turns a gradient near 0 that changes its sign into a step of the learning rate.
  EXPECT_LE(difference, 2 * settings.optimizer.learning_rate * static_cast<double>(settings.trainer.steps));
  EXPECT_GT(difference, 0) << "nothing was rounded";
  EXPECT_EQ(rounded.files, train(settings, 2, "again").files) << "the same bytes each time";
  EXPECT_EQ(alone.weights(), train(settings, 1, "alone too").weights()) << "with one rank nothing travels";
}

TEST_F(TrainerTest, MixedPrecisionLearnsAsFloat32Does) {
  auto settings = testing::sample_settings();
  settings.trainer.steps = 40;
  settings.optimizer.learning_rate = 5e-3;
  train(settings, 1, "float32");
  settings.trainer.precision = configs::Precision::bfloat16;
  const auto first = train(settings, 1, "bfloat16");
  EXPECT_EQ(first.files, train(settings, 1, "again").files) << "the same bytes each time";
  for (const auto& [name, tensor] : first.tensors()) EXPECT_EQ(tensor.scalar_type(), torch::kFloat) << name;
  const auto losses_of = [&](const std::string& name) {
    std::vector<double> losses;
    for (const auto& line : testing::metrics_lines(folder(name), "train")) losses.push_back(line.at("loss"));
    return losses;
  };
  const auto full = losses_of("float32"), mixed = losses_of("bfloat16");
  ASSERT_EQ(full.size(), 40u);
  ASSERT_EQ(mixed.size(), 40u);
  EXPECT_NE(full, mixed) << "nothing was rounded";
  EXPECT_NEAR(mixed.front(), full.front(), 0.02 * full.front());
  const auto end = [](const std::vector<double>& losses) {
    return std::accumulate(losses.end() - 10, losses.end(), 0.0);
  };
  EXPECT_NEAR(end(mixed), end(full), 0.1 * end(full));
}

TEST_F(TrainerTest, ReportsWaitsAndTheSlowestRank) {
  auto settings = testing::sample_settings();
  settings.trainer.log_every = 4;  // the last report is of the two steps that are left
  train(settings, 2, "run");
  std::vector<int64_t> steps;
  for (const auto& line : testing::metrics_lines(folder("run"), "train")) {
    steps.push_back(line.at("step"));
    EXPECT_GE(line.at("comm_exposed_ms").get<double>(), 0);
    EXPECT_GE(line.at("comm_wait_ms").get<double>(), line.at("comm_exposed_ms").get<double>());
    EXPECT_GE(line.at("straggler_ratio").get<double>(), 1.0);
    EXPECT_LE(line.at("straggler_ratio").get<double>(), 2.0);
    EXPECT_TRUE(line.at("straggler_group") == "C1" || line.at("straggler_group") == "C12") << line;
    EXPECT_TRUE(line.at("straggler_rank") == 0 || line.at("straggler_rank") == 1) << line;
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{4, 6}));
}

/// Ten steps with a checkpoint at the fifth.
configs::Settings halved_settings() {
  auto settings = testing::sample_settings();
  settings.trainer.steps = 10;
  settings.checkpoint.every_steps = 5;
  settings.checkpoint.keep_last = 10;
  return settings;
}

TEST_F(TrainerTest, ResumingGivesTheBytesOfAStraightRun) {
  auto settings = halved_settings();
  settings.model.dropout = 0.3;
  settings.trainer.eval_every = 2;
  settings.optimizer.schedule = configs::Schedule::cosine;
  const auto straight = train(settings, 1, "straight");
  leave_behind("straight", "resumed", 5);
  EXPECT_EQ(train(settings, 1, "resumed").files, straight.files);
}

/// Every rank has the running statistics that rank 0 saves; else a resumed run would evaluate another model.
TEST_F(TrainerTest, RanksShareTheRunningStatisticsOfBatchNormalisation) {
  auto settings = halved_settings();
  settings.model.type = configs::ModelType::sage;
  settings.model.norm = configs::Norm::batch;
  const auto straight = train(settings, 2, "straight");
  leave_behind("straight", "resumed", 5);
  const auto resumed = train(settings, 2, "resumed");
  EXPECT_EQ(resumed.files, straight.files);
  EXPECT_EQ(resumed.metrics, straight.metrics);
  const auto mean = straight.tensors().at("norms.0.running_mean");
  EXPECT_FALSE(torch::equal(mean, torch::zeros_like(mean)));
}

TEST(Threads, SmallStepsTakeOneThread) {
  const testing::RunParts run(testing::sample_settings(), 1);
  auto plan = run.plan;
  const auto per_step = static_cast<double>(plan.batches_per_epoch);
  for (const auto& [work, threads] : {std::pair(0.0, 1), {3e8, 1}, {6.5e8, 3}, {1e12, 8}}) {
    for (auto& lane : plan.slots) lane.cost = work * per_step / static_cast<double>(plan.slots.size());
    EXPECT_EQ(threads_of_a_step(plan, 0, 8), threads) << work;
  }
}

TEST_F(TrainerTest, LearnsTheSamples) {
  auto settings = testing::sample_settings();
  settings.trainer.steps = 120;
  settings.optimizer.learning_rate = 5e-3;
  settings.run.directory = folder("run").string();
  auto group = foretime::testing::make_thread_group(1, std::chrono::seconds(60));
  const auto log = make_logger("", spdlog::level::err);
  Trainer trainer(settings, *group[0], *log);
  trainer.set_up();
  const auto outcome = trainer.run();
  EXPECT_GT(outcome.final_evaluation.metrics.at("holdout/kendall_tau"), 0.4);
  EXPECT_LT(outcome.final_evaluation.metrics.at("holdout/mae"), trainer.evaluate_constant().metrics.at("holdout/mae"));
}

/// Several collections of TpuGraphs at once, in which one name stands for different graphs.
configs::Settings joint_settings(const std::filesystem::path& root) {
  for (const auto& [folder, seed] : std::vector<std::pair<std::string, uint64_t>>{
           {"layout/xla/random/train", 1}, {"layout/xla/default/train", 2}, {"layout/xla/default/valid", 3}}) {
    std::filesystem::create_directories(root / folder);
    foretime::testing::write_layout_npz(root / folder / "a.npz",
                                        foretime::testing::synthesize_layout_group({40, 8, 30, seed}, "a"));
  }
  configs::Settings settings;
  settings.data.format = configs::DataFormat::layout;
  settings.data.root = root.string();
  settings.data.train = {"layout/*/*/train"};
  settings.data.valid = {"layout/*/*/valid"};
  settings.data.holdout = 0.3;
  settings.model.type = configs::ModelType::gcn;
  settings.model.hidden = 8;
  settings.model.node_type_embedding = 4;
  settings.model.collection_embedding = 3;
  settings.model.readout = {configs::ReadoutPart::mean, configs::ReadoutPart::decision_sum};
  settings.sampler = {.groups_per_batch = 2, .candidates_per_group = 6, .samples_per_group = 4};
  settings.trainer.steps = 6;
  settings.trainer.device = configs::Device::cpu;
  settings.trainer.log_every = 100;
  return settings;
}

using Collections = testing::RunTest;

TEST_F(Collections, TrainTogetherOnAnyNumberOfRanks) {
  const auto settings = joint_settings(folder("data"));
  const auto one = train(settings, 1, "one"), two = train(settings, 2, "two");
  EXPECT_TRUE(one.metrics.contains("valid/kendall_tau"));
  const auto a = one.tensors(), b = two.tensors();
  for (const auto& [name, tensor] : a) EXPECT_TRUE(torch::allclose(tensor, b.at(name), 1e-4, 1e-5)) << name;
  // Those of the two collections have been trained, the others are as they were drawn.
  auto other = settings;
  other.trainer.steps = 1;
  other.optimizer.learning_rate = 1e-9;
  const auto drawn = train(other, 1, "drawn").tensors();
  const auto moved = (a.at("encoder.collections.weight") - drawn.at("encoder.collections.weight")).abs();
  for (int64_t c = 0; c < data::kCollections; ++c) {
    const bool trained = c == static_cast<int64_t>(data::Collection::layout_xla_random) ||
                         c == static_cast<int64_t>(data::Collection::layout_xla_default);
    EXPECT_EQ(moved[c].max().item<double>() > 1e-5, trained) << c;
  }
}

}  // namespace
}  // namespace foretime::worker
