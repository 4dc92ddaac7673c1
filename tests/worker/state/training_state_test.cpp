#include "worker/state/training_state.h"

#include <gmock/gmock.h>

#include "tests/support/message_of.h"
#include "tests/worker/samples.h"

namespace foretime::worker {
namespace {

struct Fixture {
  Fixture() {
    state.settings = testing::sample_settings();
    state.schema = {data::CandidateKind::program, 7, 56};
    state.step = 12;
    state.targets = {models::TargetTransform::Kind::log_runtime, 1.0, -6.25, 0.1};
    state.data_fingerprint = 0xabcdef0123456789ULL;
    state.train_mean_runtime = 0.1 + 0.2;
    torch::manual_seed(5);
    model = models::make_model(state.settings.model, state.schema);
    for (const auto& item : model->named_parameters()) parameters.emplace_back(item.key(), item.value());
  }
  coordinator::StoredCheckpoint stored(const Adam& adam, const coordinator::EarlyStop& stop) const {
    return {.step = state.step, .folder = "ckpt", .files = checkpoint_files(state, *model, adam, stop)};
  }
  TrainingState state;
  std::shared_ptr<models::CostModel> model;
  NamedTensors parameters;
};

TEST(TrainingState, ComesBackWhole) {
  const Fixture f;
  Adam adam(f.parameters, f.state.settings.optimizer);
  for (const auto& [name, tensor] : f.parameters) tensor.mutable_grad() = torch::ones_like(tensor);
  adam.step(0.1);
  coordinator::EarlyStop stop(true, 3, 0);
  stop.observe(4, 0.1 + 0.2);
  const auto stored = parse_stored_checkpoint(serialize(f.stored(adam, stop)));

  const auto read = read_state(stored);
  EXPECT_EQ(read.step, 12);
  EXPECT_EQ(read.schema, f.state.schema);
  EXPECT_EQ(read.targets.mean, -6.25);
  EXPECT_EQ(read.data_fingerprint, f.state.data_fingerprint);
  EXPECT_EQ(read.train_mean_runtime, f.state.train_mean_runtime);

  const auto trained = load_trained_model(stored);
  Adam again(f.parameters, f.state.settings.optimizer);
  coordinator::EarlyStop stop_again(true, 3, 0);
  restore_progress(stored, again, stop_again);
  EXPECT_EQ(stop_again.best(), stop.best());
  // What was read writes the same bytes.
  EXPECT_EQ(checkpoint_files(read, *trained.model, again, stop_again), stored.files);
}

TEST(TrainingState, RefusesACheckpointOfAnotherModel) {
  Fixture f;
  const Adam adam(f.parameters, f.state.settings.optimizer);
  const auto stored = f.stored(adam, coordinator::EarlyStop(true, 0, 0));
  auto settings = f.state.settings.model;
  settings.hidden = 24;
  const auto wider = models::make_model(settings, f.state.schema);
  EXPECT_THAT(foretime::testing::message_of<coordinator::RunError>([&] { restore_model(stored, *wider); }),
              ::testing::HasSubstr("another model"));
  settings = f.state.settings.model;
  settings.type = configs::ModelType::sage;
  EXPECT_THROW(restore_model(stored, *models::make_model(settings, f.state.schema)), coordinator::RunError);
}

TEST(TrainingState, DamagedStateIsARunError) {
  const Fixture f;
  const Adam adam(f.parameters, f.state.settings.optimizer);
  auto stored = f.stored(adam, coordinator::EarlyStop(true, 0, 0));
  for (const char* text : {"", "{", "[]", "{\"step\": \"x\"}", "null"}) {
    stored.files["state.json"] = text;
    EXPECT_THROW(read_state(stored), coordinator::RunError) << text;
  }
  stored.files.erase("state.json");
  EXPECT_THROW(read_state(stored), coordinator::RunError);
}

}  // namespace
}  // namespace foretime::worker
