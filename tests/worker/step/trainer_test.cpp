#include "worker/step/trainer.h"

#include <fstream>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "comm/agree.h"
#include "comm/threads/threads.h"
#include "data/files/packed.h"
#include "models/safetensors.h"
#include "plans/symbolic_plan.h"
#include "tests/support/scratch.h"
#include "tests/worker/samples.h"
#include "tests/worker/segments/segmented.h"
#include "tests/worker/training_run.h"

namespace foretime::worker {
namespace {

/// What a run killed after step `step` leaves behind: the whole one's folder without the later checkpoints.
void copy_as_of_step(int64_t step, const std::filesystem::path& whole, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::filesystem::copy(whole, folder, std::filesystem::copy_options::recursive);
  const coordinator::CheckpointStore store(folder / "checkpoints");
  for (const int64_t later : store.steps()) {
    if (later > step) std::filesystem::remove_all(store.folder(later));
  }
}

/// The files of the last checkpoint.
std::map<std::string, std::string> train(const configs::Settings& settings, int ranks,
                                         const std::filesystem::path& folder) {
  return testing::train(settings, ranks, folder).files;
}

TEST(Trainer, SameSeedGivesTheSameBytes) {
  const foretime::testing::Scratch scratch;
  const auto settings = testing::sample_settings();
  EXPECT_EQ(train(settings, 1, scratch.path() / "a"), train(settings, 1, scratch.path() / "b"));
}

TEST(Trainer, TwoRanksAgreeWithOneAfterTenSteps) {
  const foretime::testing::Scratch scratch;
  auto settings = testing::sample_settings();
  settings.trainer.steps = 10;
  const auto one = train(settings, 1, scratch.path() / "one"), two = train(settings, 2, scratch.path() / "two");
  EXPECT_LE(testing::largest_difference(one.at("model.safetensors"), two.at("model.safetensors")), 1e-5);
}

TEST(Trainer, GradientsInBfloat16StayNearThoseInFloat32) {
  const foretime::testing::Scratch scratch;
  auto settings = testing::sample_settings();
  const auto full = train(settings, 2, scratch.path() / "full");
  const auto alone = train(settings, 1, scratch.path() / "alone");
  settings.comm.gradient_dtype = configs::Precision::bfloat16;
  const auto rounded = train(settings, 2, scratch.path() / "rounded");
  const double difference = testing::largest_difference(full.at("model.safetensors"), rounded.at("model.safetensors"));
  // Adam turns a gradient near 0 that changes its sign into a step of the learning rate.
  EXPECT_LE(difference, 2 * settings.optimizer.learning_rate * static_cast<double>(settings.trainer.steps));
  EXPECT_GT(difference, 0) << "nothing was rounded";
  EXPECT_EQ(rounded, train(settings, 2, scratch.path() / "again")) << "the same bytes each time";
  // With one rank nothing travels.
  EXPECT_EQ(alone.at("model.safetensors"), train(settings, 1, scratch.path() / "alone_too").at("model.safetensors"));
}

/// The losses of a run's steps, from its metrics.
std::vector<double> losses_of(const std::filesystem::path& folder) {
  std::ifstream metrics(folder / "metrics.jsonl");
  std::vector<double> losses;
  for (std::string text; std::getline(metrics, text);) {
    const auto line = nlohmann::json::parse(text);
    if (line.at("kind") == "train") losses.push_back(line.at("loss"));
  }
  return losses;
}

TEST(Trainer, MixedPrecisionLearnsAsFloat32Does) {
  const foretime::testing::Scratch scratch;
  auto settings = testing::sample_settings();
  settings.trainer.steps = 40;
  settings.optimizer.learning_rate = 5e-3;
  train(settings, 1, scratch.path() / "float32");
  settings.trainer.precision = configs::Precision::bfloat16;
  const auto first = train(settings, 1, scratch.path() / "bfloat16");
  EXPECT_EQ(first, train(settings, 1, scratch.path() / "again")) << "the same bytes each time";
  const auto weights = models::parse_safetensors(first.at("model.safetensors"), "model").tensors;
  for (const auto& [name, tensor] : weights) EXPECT_EQ(tensor.scalar_type(), torch::kFloat) << name;
  const auto full = losses_of(scratch.path() / "float32"), mixed = losses_of(scratch.path() / "bfloat16");
  ASSERT_EQ(full.size(), 40u);
  ASSERT_EQ(mixed.size(), 40u);
  EXPECT_NE(full, mixed) << "nothing was rounded";
  EXPECT_NEAR(mixed.front(), full.front(), 0.02 * full.front());
  const auto end = [](const std::vector<double>& losses) {
    return std::accumulate(losses.end() - 10, losses.end(), 0.0);
  };
  EXPECT_NEAR(end(mixed), end(full), 0.1 * end(full));
}

TEST(Trainer, ReportsWaitsAndTheSlowestRank) {
  const foretime::testing::Scratch scratch;
  auto settings = testing::sample_settings();
  settings.trainer.log_every = 4;  // the last report is of the two steps that are left
  train(settings, 2, scratch.path());
  std::ifstream metrics(scratch.path() / "metrics.jsonl");
  std::vector<int64_t> steps;
  for (std::string text; std::getline(metrics, text);) {
    const auto line = nlohmann::json::parse(text);
    if (line.at("kind") != "train") continue;
    steps.push_back(line.at("step"));
    EXPECT_GE(line.at("comm_exposed_ms").get<double>(), 0);
    EXPECT_GE(line.at("comm_wait_ms").get<double>(), line.at("comm_exposed_ms").get<double>());
    EXPECT_GE(line.at("straggler_ratio").get<double>(), 1.0);
    EXPECT_LE(line.at("straggler_ratio").get<double>(), 2.0);
    EXPECT_TRUE(line.at("straggler_group") == "C1" || line.at("straggler_group") == "C12") << text;
    EXPECT_TRUE(line.at("straggler_rank") == 0 || line.at("straggler_rank") == 1) << text;
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{4, 6}));
}

TEST(Trainer, MoreRanksThanLanesPad) {
  const foretime::testing::Scratch scratch;
  const auto settings = testing::sample_settings();
  const auto one = train(settings, 1, scratch.path() / "one"), four = train(settings, 4, scratch.path() / "four");
  EXPECT_LE(testing::largest_difference(one.at("model.safetensors"), four.at("model.safetensors")), 1e-5);
}

TEST(Trainer, AccumulationEqualsTheSumOfItsBatches) {
  const foretime::testing::Scratch scratch;
  auto settings = testing::sample_settings();
  settings.optimizer.accumulation = 3;
  settings.trainer.steps = 4;
  // Ranks pad in different batches, the last of a step among them: gradients of the earlier ones must survive.
  const auto one = train(settings, 1, scratch.path() / "one"), four = train(settings, 4, scratch.path() / "four");
  EXPECT_LE(testing::largest_difference(one.at("model.safetensors"), four.at("model.safetensors")), 1e-5);
}

TEST(Trainer, ResumingGivesTheBytesOfAStraightRun) {
  const foretime::testing::Scratch scratch;
  auto settings = testing::sample_settings();
  settings.model.dropout = 0.3;
  settings.trainer.eval_every = 2;
  settings.checkpoint.every_steps = 5;
  settings.checkpoint.keep_last = 10;
  settings.trainer.steps = 10;
  settings.optimizer.schedule = configs::Schedule::cosine;
  const auto straight = train(settings, 1, scratch.path() / "straight");
  copy_as_of_step(5, scratch.path() / "straight", scratch.path() / "resumed");
  EXPECT_EQ(train(settings, 1, scratch.path() / "resumed"), straight);
}

/// Every rank has the running statistics that rank 0 saves; else a resumed run would evaluate another model.
TEST(Trainer, RanksShareTheRunningStatisticsOfBatchNormalisation) {
  const foretime::testing::Scratch scratch;
  auto settings = testing::sample_settings();
  settings.model.type = configs::ModelType::sage;
  settings.model.norm = configs::Norm::batch;
  settings.trainer.eval_every = 0;
  settings.checkpoint.every_steps = 5;
  settings.checkpoint.keep_last = 10;
  settings.trainer.steps = 10;
  const auto straight = testing::train(settings, 2, scratch.path() / "straight");
  copy_as_of_step(5, scratch.path() / "straight", scratch.path() / "resumed");
  const auto resumed = testing::train(settings, 2, scratch.path() / "resumed");
  EXPECT_EQ(resumed.files, straight.files);
  EXPECT_EQ(resumed.metrics, straight.metrics);
  const auto model = models::parse_safetensors(straight.files.at("model.safetensors"), "model");
  EXPECT_FALSE(torch::equal(model.tensors.at("norms.0.running_mean"),
                            torch::zeros_like(model.tensors.at("norms.0.running_mean"))));
}

TEST(Trainer, PlansKeptInAPackedCollectionGiveTheSameBytes) {
  const foretime::testing::Scratch scratch;
  auto settings = testing::segmented_settings(scratch.path() / "data");
  settings.sampler.max_segment_nodes = 0;
  const auto header = sharding::make_dataset_index(settings).entries.at(0).header;
  const auto group = data::load_group(header);
  const auto request = models::make_model(settings.model, {.kind = group.kind,
                                                           .feature_count = group.graphs.feature_count,
                                                           .node_type_count = group.graphs.node_type_count})
                           ->plan_request();
  settings.data.root = ".";
  std::map<bool, std::map<std::string, std::string>> files;
  for (const bool with_plans : {false, true}) {
    const auto file = scratch.path() / (with_plans ? "plans.foretime" : "plain.foretime");
    const auto keep = [&](const data::Group& packed) {
      return data::PackedPlans{
          {plans::symbolic_plan_key(request), plans::to_bytes(*plans::make_symbolic_plan(packed, request, {}))}};
    };
    data::PackedWriter writer(file, with_plans ? data::PlanMaker(keep) : data::PlanMaker());
    writer.add(group, header.fingerprint);
    writer.finish();
    settings.data.train = {file.string()};
    const auto packed = sharding::make_dataset_index(settings).entries.at(0).header;
    EXPECT_EQ(data::load_packed_plan(packed, plans::symbolic_plan_key(request)).has_value(), with_plans);
    files[with_plans] = train(settings, 1, scratch.path() / (with_plans ? "a" : "b"));
  }
  EXPECT_EQ(files[true].at("model.safetensors"), files[false].at("model.safetensors"));
  EXPECT_EQ(files[true].at("optimizer.safetensors"), files[false].at("optimizer.safetensors"));
}

TEST(Trainer, SmallStepsTakeOneThread) {
  const testing::SampleRun run(1);
  auto plan = run.plan;
  const auto per_step = static_cast<double>(plan.batches_per_epoch);
  for (const auto& [work, threads] : {std::pair(0.0, 1), {3e8, 1}, {6.5e8, 3}, {1e12, 8}}) {
    for (auto& lane : plan.slots) lane.cost = work * per_step / static_cast<double>(plan.slots.size());
    EXPECT_EQ(threads_of_a_step(plan, 0, 8), threads) << work;
  }
}

TEST(Trainer, LearnsTheSamples) {
  const foretime::testing::Scratch scratch;
  auto settings = testing::sample_settings();
  settings.trainer.steps = 120;
  settings.optimizer.learning_rate = 5e-3;
  settings.run.directory = scratch.path().string();
  auto group = comm::make_thread_group(1, std::chrono::seconds(60));
  const auto log = coordinator::make_logger("", spdlog::level::err);
  Trainer trainer(settings, *group[0], *log);
  trainer.set_up();
  const auto outcome = trainer.run();
  EXPECT_GT(outcome.final_evaluation.metrics.at("holdout/kendall_tau"), 0.4);
  EXPECT_LT(outcome.final_evaluation.metrics.at("holdout/mae"), trainer.evaluate_constant().metrics.at("holdout/mae"));
}

}  // namespace
}  // namespace foretime::worker
