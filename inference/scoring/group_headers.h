#pragma once

#include <string>
#include <vector>

#include "data/dataset/group_files.h"
#include "inference/scoring/model.h"

namespace foretime::inference {

/// The form in which a model of programs was trained on syntax trees; null for models of the trees as they are, and for
/// other models.
data::FeaturizerPtr featurizer_of(const ScoringSpec& spec);

/// The groups of files, folders, globs or packed collections, read in the form that the model was trained on. Throws
/// data::DataError, naming the file, where one is of another kind or has other node features.
std::vector<data::GroupHeader> list_groups(const Model& model, const std::vector<std::string>& files);

}  // namespace foretime::inference
