#pragma once

#include <string>
#include <vector>

#include "experiments/document.h"

namespace foretime::experiments {

/// What one fold trains on and tests: files, relative to data.root where they lie below it.
struct Fold {
  std::vector<std::string> train, test;
};

/// The experiment's folds, by its FoldRule over the groups sorted by name; empty where it has none. Reads headers.
/// Throws data::DataError where groups lie in packed collections, share a name, or are fewer than folds.
std::vector<Fold> make_folds(const Experiment& experiment);

/// Makes a trial's settings those of a fold: its files, no validation groups, nothing held out. Without either the last
/// step's model counts, and trainer.metric becomes that of the test set, which chooses nothing. Throws ExperimentError
/// where early stopping asks for more.
void apply_fold(const Fold& fold, configs::Settings& settings, const std::string& origin);

}  // namespace foretime::experiments
