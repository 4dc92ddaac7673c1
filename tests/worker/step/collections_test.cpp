#include <filesystem>

#include <gtest/gtest.h>

#include "data/dataset/hlo_convert.h"
#include "data/dataset/synth.h"
#include "models/safetensors.h"
#include "tests/support/scratch.h"
#include "tests/worker/training_run.h"

/// Training on several collections of TpuGraphs at once, in which one name stands for different graphs.
namespace foretime::worker {
namespace {

configs::Settings joint_settings(const std::filesystem::path& root) {
  for (const auto& [folder, seed] : std::vector<std::pair<std::string, uint64_t>>{
           {"layout/xla/random/train", 1}, {"layout/xla/default/train", 2}, {"layout/xla/default/valid", 3}}) {
    std::filesystem::create_directories(root / folder);
    data::write_layout_npz(root / folder / "a.npz", data::synthesize_layout_group({40, 8, 30, seed}, "a"));
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

TEST(Collections, TrainTogetherOnAnyNumberOfRanks) {
  const foretime::testing::Scratch scratch;
  const auto settings = joint_settings(scratch.path() / "data");
  const auto one = testing::train(settings, 1, scratch.path() / "one");
  const auto two = testing::train(settings, 2, scratch.path() / "two");
  EXPECT_TRUE(one.metrics.contains("valid/kendall_tau"));
  const auto a = models::parse_safetensors(one.files.at("model.safetensors"), "one"),
             b = models::parse_safetensors(two.files.at("model.safetensors"), "two");
  for (const auto& [name, tensor] : a.tensors)
    EXPECT_TRUE(torch::allclose(tensor, b.tensors.at(name), 1e-4, 1e-5)) << name;
  // Those of the two collections have been trained, the others are as they were drawn.
  auto other = settings;
  other.trainer.steps = 1;
  other.optimizer.learning_rate = 1e-9;
  const auto drawn = models::parse_safetensors(
      testing::train(other, 1, scratch.path() / "drawn").files.at("model.safetensors"), "drawn");
  const auto moved =
      (a.tensors.at("encoder.collections.weight") - drawn.tensors.at("encoder.collections.weight")).abs();
  for (int64_t c = 0; c < data::kCollections; ++c) {
    const bool trained = c == static_cast<int64_t>(data::Collection::layout_xla_random) ||
                         c == static_cast<int64_t>(data::Collection::layout_xla_default);
    EXPECT_EQ(moved[c].max().item<double>() > 1e-5, trained) << c;
  }
}

}  // namespace
}  // namespace foretime::worker
