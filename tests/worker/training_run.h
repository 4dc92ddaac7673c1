#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "comm/agree.h"
#include "coordinator/checkpoint_store.h"
#include "models/safetensors.h"
#include "tests/support/ranks.h"
#include "worker/step/trainer.h"

namespace foretime::worker::testing {

struct TrainingRun {
  std::map<std::string, std::string> files;  // of the last checkpoint; none where none was written
  std::map<std::string, double> metrics;     // of the final evaluation
};

/// Trains on so many ranks, as threads. A rank that throws fails the test.
inline TrainingRun train(configs::Settings settings, int ranks, const std::filesystem::path& folder) {
  settings.run.directory = folder.string();
  TrainingRun result;
  const auto run = [&](comm::Communicator& comm) {
    torch::set_num_threads(1);
    const auto log = coordinator::make_logger("", spdlog::level::err);
    Trainer trainer(settings, comm, *log);
    trainer.set_up();
    const auto outcome = trainer.run();
    if (comm.rank() == 0) result.metrics = outcome.final_evaluation.metrics;
  };
  EXPECT_NO_THROW(foretime::testing::run_threads(ranks, run, std::chrono::seconds(120)));
  const coordinator::CheckpointStore store(folder / "checkpoints");
  if (!store.steps().empty()) result.files = store.read(store.steps().back()).files;
  return result;
}

/// Between the parameters of two checkpoints, given as their bytes.
inline double largest_difference(const std::string& a, const std::string& b) {
  const auto left = models::parse_safetensors(a, "a"), right = models::parse_safetensors(b, "b");
  double most = 0;
  for (const auto& [name, tensor] : left.tensors) {
    most = std::max(most,
                    (tensor.to(torch::kDouble) - right.tensors.at(name).to(torch::kDouble)).abs().max().item<double>());
  }
  return most;
}

}  // namespace foretime::worker::testing
