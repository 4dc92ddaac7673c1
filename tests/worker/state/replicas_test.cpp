#include "worker/state/replicas.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/logger/logger.h"
#include "coordinator/checkpoint_store.h"
#include "coordinator/run_directory.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"
#include "tests/worker/samples.h"
#include "worker/step/run_checkpoints.h"

/// Ranks whose weights differ, though nothing but a fault makes them.
namespace foretime::worker {
namespace {

/// Two ranks build a model, `spoil` it on rank 1, and save. Messages of both ranks; empty where a checkpoint was
/// written.
std::vector<std::string> save_spoilt(configs::Settings settings, const std::filesystem::path& folder,
                                     const std::function<void(models::CostModel&)>& spoil) {
  settings.run.directory = folder.string();
  std::vector<std::string> messages(2);
  foretime::testing::run_threads(2, [&](comm::Communicator& comm) {
    torch::set_num_threads(1);
    const auto log = make_logger("", spdlog::level::err);
    RunContext run(settings, comm, *log, nullptr);
    load_data(run);
    build_model(run);
    fit_transforms(run);
    if (comm.rank() == 1) spoil(*run.model);
    TrainingListener nobody;
    ModelEvaluation evaluation(run, nobody);
    RunCheckpoints checkpoints(run, evaluation, nobody);
    try {
      checkpoints.save(3);
    } catch (const coordinator::RunError& error) {
      messages[static_cast<size_t>(comm.rank())] = error.what();
    }
  });
  const bool written = !coordinator::CheckpointStore(folder / "checkpoints").steps().empty();
  EXPECT_EQ(written, messages[0].empty());
  return messages;
}

using ReplicasTest = foretime::testing::ScratchTest;

TEST_F(ReplicasTest, NoCheckpointOfRanksThatDiffer) {
  auto settings = testing::sample_settings();
  settings.trainer.device = configs::Device::cpu;
  std::string changed;
  const auto add_to_one = [&](models::CostModel& model) {
    const torch::NoGradGuard no_grad;
    const auto all = model.named_parameters();
    changed = all[1].key();
    auto weight = all[1].value().view({-1});
    weight[0] = std::nextafter(weight[0].item<float>(), 1e30F);
  };
  const auto leave = [](models::CostModel&) {};

  EXPECT_EQ(save_spoilt(settings, scratch_.path() / "equal", leave), std::vector<std::string>(2));
  for (const auto& message : save_spoilt(settings, scratch_.path() / "one bit", add_to_one))
    EXPECT_MESSAGE(message, changed, "checkpoint.compare_replicas=false");
  settings.checkpoint.compare_replicas = false;
  EXPECT_EQ(save_spoilt(settings, scratch_.path() / "unlike processors", add_to_one), std::vector<std::string>(2));
}

}  // namespace
}  // namespace foretime::worker
