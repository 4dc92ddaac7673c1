#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/types.h>
#include <torch/utils.h>

#include "base/logger/logger.h"
#include "coordinator/checkpoint_store.h"
#include "models/safetensors.h"
#include "tests/support/gpu_kernels_on_cpu.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"
#include "worker/step/trainer.h"

namespace foretime::worker::testing {

struct TrainingRun {
  std::map<std::string, std::string> files;  // of the last checkpoint; none where none was written
  std::map<std::string, double> metrics;     // of the final evaluation

  const std::string& weights() const { return files.at("model.safetensors"); }
  std::map<std::string, torch::Tensor> tensors() const { return models::parse_safetensors(weights(), "model").tensors; }
  /// The tie thresholds of its graphs.
  nlohmann::json levels() const {
    return nlohmann::json::parse(files.at("state.json")).value("levels", nlohmann::json());
  }
};

/// Trains on so many ranks, as threads. A rank that throws fails the test.
inline TrainingRun train(configs::Settings settings, int ranks, const std::filesystem::path& folder) {
  settings.run.directory = folder.string();
  TrainingRun result;
  const auto run = [&](comm::Communicator& comm) {
    torch::set_num_threads(1);
    const auto log = make_logger("", spdlog::level::err);
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

/// Between the weights of two runs.
inline double largest_difference(const TrainingRun& a, const TrainingRun& b) {
  const auto left = a.tensors(), right = b.tensors();
  double most = 0;
  for (const auto& [name, tensor] : left) {
    const auto difference = tensor.to(torch::kDouble) - right.at(name).to(torch::kDouble);
    most = std::max(most, difference.abs().max().item<double>());
  }
  return most;
}

/// The lines of one kind in a run's metrics.jsonl.
inline std::vector<nlohmann::json> metrics_lines(const std::filesystem::path& folder, const std::string& kind) {
  std::ifstream metrics(folder / "metrics.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string text; std::getline(metrics, text);) {
    auto line = nlohmann::json::parse(text);
    if (line.at("kind") == kind) lines.push_back(std::move(line));
  }
  return lines;
}

/// A test that trains in folders of its own.
class RunTest : public ::testing::Test {
 protected:
  std::filesystem::path folder(const std::string& name) const { return scratch_.path() / name; }
  TrainingRun train(const configs::Settings& settings, int ranks, const std::string& name) const {
    return testing::train(settings, ranks, folder(name));
  }
  /// What the run `whole`, killed after step `step`, leaves behind: its folder without the later checkpoints.
  void leave_behind(const std::string& whole, const std::string& name, int64_t step) const {
    std::filesystem::copy(folder(whole), folder(name), std::filesystem::copy_options::recursive);
    const auto store = checkpoints(name);
    for (const int64_t later : store.steps()) {
      if (later > step) std::filesystem::remove_all(store.folder(later));
    }
  }
  coordinator::CheckpointStore checkpoints(const std::string& name) const {
    return coordinator::CheckpointStore(folder(name) / "checkpoints");
  }
  std::map<std::string, torch::Tensor> tensors_at(const std::string& name, int64_t step,
                                                  const std::string& file = "model.safetensors") const {
    return models::parse_safetensors(checkpoints(name).read(step).files.at(file), file).tensors;
  }

  foretime::testing::Scratch scratch_;
};

}  // namespace foretime::worker::testing
