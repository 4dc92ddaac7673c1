#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "inference/bundle/bundle.h"

namespace CLI {
class App;
}

/// Implements `foretime select` without the part for checkpoints, which needs LibTorch, so that the light program has
/// it.
namespace foretime::cli {

/// Holds the arguments of `foretime select`.
struct SelectArguments {
  std::string model;  // a bundle, a run directory or a checkpoint folder
  std::vector<std::string> ensemble, files, measured;
  int64_t number = 0;
  std::string method = "representative", output, dags, member;
  uint64_t seed = 1;
  std::optional<int64_t> threads;
  bool json = false, force = false;
};
/// Returns the model of a run directory or a checkpoint folder as a bundle.
using CheckpointReader = std::function<inference::Bundle(const std::string& checkpoint)>;

/// Adds the command. A model that is a file is a bundle; `read_checkpoint` reads any other one.
void add_select_command(CLI::App& app, const CheckpointReader& read_checkpoint);

/// Selects candidates to measure and prints them. `bundles` are arguments.model and arguments.ensemble. Throws
/// SettingsError for arguments that do not fit the models or each other, DataError and the errors of inference/ for
/// files, and if there are fewer candidates than arguments.number.
void select_candidates(std::vector<inference::Bundle> bundles, const SelectArguments& arguments);

}  // namespace foretime::cli
