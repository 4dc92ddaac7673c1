#pragma once

#include <string>
#include <vector>

#include "data/catalogue.h"
#include "tuner/model.h"

namespace foretime::tuner {

/// The groups of files, folders, globs or packed collections, read in the form that the model was trained on. Throws
/// data::DataError, naming the file, where one is of another kind or has other node features.
std::vector<data::GroupHeader> list_groups(const Model& model, const std::vector<std::string>& files);

}  // namespace foretime::tuner
