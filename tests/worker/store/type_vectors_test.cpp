/// Vectors of node types that are made before training: by rank 0 for all, and kept in the checkpoint.
#include "worker/store/type_vectors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "coordinator/checkpoint_store.h"
#include "data/frontends/tir/embedding/type_embedding.h"
#include "data/graphs/schema.h"
#include "models/statistics.h"
#include "tests/support/thread_group.h"
#include "tests/worker/samples.h"
#include "tests/worker/training_run.h"

namespace foretime::worker {
namespace {

configs::Settings fasttext_settings() {
  auto settings = testing::sample_settings();
  settings.model.type = configs::ModelType::tpgnn;
  settings.model.layers = 2;
  settings.model.encoder_layers = 0;
  settings.model.node_type_embedding = 6;
  settings.model.node_types = {.vectors = configs::NodeTypeVectors::fasttext, .walks = 500, .walk_epochs = 2};
  settings.trainer.steps = 3;
  return settings;
}

torch::Tensor vectors_in(const testing::TrainingRun& run) { return run.tensors().at("encoder.type_vectors"); }

using TypeVectors = testing::RunTest;

TEST_F(TypeVectors, AreTheSameOnAnyNumberOfRanksAndKeptAsTheyAre) {
  auto settings = fasttext_settings();
  const auto vectors = vectors_in(train(settings, 1, "one"));
  EXPECT_EQ(vectors.sizes(), (std::vector<int64_t>{data::kTirTypes, 6}));
  EXPECT_GT(vectors.std().item<float>(), 0);
  EXPECT_TRUE(torch::equal(vectors, vectors_in(train(settings, 2, "two"))));
  settings.trainer.seed = 2;
  EXPECT_FALSE(torch::equal(vectors, vectors_in(train(settings, 1, "seed"))));
}

TEST_F(TypeVectors, ComeFromAFileThatIsNeededOnlyOnce) {
  auto settings = fasttext_settings();
  std::vector<float> made;
  std::string text = fmt::format("{} 6", data::kTirTypes);
  for (int64_t i = 0; i < data::kTirTypes * 6; ++i) {
    if (i % 6 == 0) text += fmt::format("\n{}", data::tir_type_names()[static_cast<size_t>(i / 6)]);
    made.push_back(static_cast<float>(i) / 7);
    text += fmt::format(" {}", made.back());
  }
  const auto file = scratch_.write("types.vec", text + "\n");
  settings.data.node_type_vectors = file.string();
  const auto vectors = vectors_in(train(settings, 2, "run"));
  EXPECT_TRUE(torch::equal(vectors.view(-1), torch::tensor(made)));
  std::filesystem::remove(file);
  const auto trained = load_trained_model(coordinator::read_checkpoint(folder("run")));
  EXPECT_TRUE(torch::equal(trained.model->named_buffers()["encoder.type_vectors"], vectors));
}

TEST_F(TypeVectors, AreReadFromAdmittedFoldersOnly) {
  const auto file = scratch_.write("types.vec", "1 6\nFor 1 2 3 4 5 6\n");
  testing::RunParts parts(fasttext_settings(), 1);
  auto settings = parts.settings;
  settings.data.node_type_vectors = file.string();
  const GroupStore store(settings, parts.dataset, {}, {});
  const auto comm = foretime::testing::make_thread_group(1, std::chrono::seconds(10));
  const auto make = [&] { return make_type_vectors(settings, parts.dataset, data::kTirTypes, store, *comm[0]); };
  EXPECT_EQ(make()[0][5].item<float>(), 6) << "a type that the file lacks";
  settings.data.allowed_roots = {settings.data.root};
  EXPECT_THROW(make(), DataError);
  settings.data.allowed_roots.push_back(scratch_.path().string());
  EXPECT_NO_THROW(make());
  settings.model.node_types.vectors = configs::NodeTypeVectors::learned;
  EXPECT_FALSE(make().defined());
}

}  // namespace
}  // namespace foretime::worker
