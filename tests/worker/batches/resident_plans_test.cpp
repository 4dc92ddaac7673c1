/// Trainings whose plans are made once against those whose plans are made for each batch.
#include <gtest/gtest.h>

#include "models/gpu/arena.h"
#include "tests/worker/segments/segmented.h"
#include "tests/worker/training_run.h"

namespace foretime::worker {
namespace {

class ResidentRun : public testing::RunTest {
 protected:
  configs::Settings settings(configs::ResidentPlans resident) const {
    auto settings = testing::segmented_settings(folder("data"));
    settings.sampler.max_segment_nodes = 0;
    settings.sampler.resident_plans = resident;
    settings.checkpoint.every_steps = 4;
    settings.optimizer.learning_rate = 1e-3;
    return settings;
  }
};

TEST_F(ResidentRun, LearnsWhatPlansOfEachBatchTeach) {
  const auto apart = train(settings(configs::ResidentPlans::never), 1, "apart"),
             resident = train(settings(configs::ResidentPlans::always), 1, "resident"),
             two = train(settings(configs::ResidentPlans::always), 2, "two ranks");
  EXPECT_LE(testing::largest_difference(apart, resident), 1e-5);
  EXPECT_LE(testing::largest_difference(resident, two), 1e-5);
  EXPECT_TRUE(apart.weights() != resident.weights()) << "sums in another order: no resident plan was used";
}

TEST_F(ResidentRun, GoesOnBitForBit) {
  const auto wanted = settings(configs::ResidentPlans::always);
  const auto whole = train(wanted, 1, "whole");
  leave_behind("whole", "killed", 4);
  EXPECT_TRUE(train(wanted, 1, "killed").files == whole.files);
}

TEST_F(ResidentRun, GraphsThatDoNotFitGoUpForEachDraw) {
  auto wanted = settings(configs::ResidentPlans::always);
  const auto whole = train(wanted, 1, "whole");
  const int64_t before = gpu::Arena::uploads();
  train(wanted, 1, "again");
  const int64_t uploads = gpu::Arena::uploads() - before;
  wanted.sampler.resident_bytes = 1000;
  const auto spilled = train(wanted, 1, "spilled");
  const int64_t more = gpu::Arena::uploads() - before - 2 * uploads;
  if (foretime::testing::on_gpu_kernels) {
    EXPECT_TRUE(spilled.weights() == whole.weights());
    EXPECT_GT(more, 0);
  } else {  // the CPU has one memory, and no host beside it
    EXPECT_TRUE(spilled.weights() == train(settings(configs::ResidentPlans::never), 1, "none").weights());
  }
}

TEST_F(ResidentRun, GraphsThatFitNowhereHaveNone) {
  auto wanted = settings(configs::ResidentPlans::always);
  wanted.sampler.resident_bytes = 1000;
  wanted.sampler.resident_host_bytes = 1000;
  EXPECT_TRUE(train(wanted, 1, "small").weights() ==
              train(settings(configs::ResidentPlans::never), 1, "none").weights());
}

TEST_F(ResidentRun, AutomaticMeansWhereAllStatesAreLittleMoreThanTheDrawnOnes) {
  const auto differ = [&](int64_t candidates, int64_t steps, const std::string& name) {
    auto wanted = settings(configs::ResidentPlans::auto_), never = settings(configs::ResidentPlans::never);
    for (auto* each : {&wanted, &never}) {
      each->data.holdout = 0;
      each->sampler.candidates_per_group = candidates;
      each->trainer.steps = steps;
      each->trainer.metric = "train/kendall_tau";
    }
    return train(wanted, 1, name).weights() != train(never, 1, name + " never").weights();
  };
  EXPECT_TRUE(differ(/*candidates=*/24, /*steps=*/8, "all candidates, often"));
  EXPECT_FALSE(differ(24, 2, "all candidates, twice"));
  // On the CPU, the states of all 24 are much more work than those of two.
  if (foretime::testing::on_gpu_kernels) return;
  EXPECT_FALSE(differ(2, 8, "few candidates"));
}

}  // namespace
}  // namespace foretime::worker
