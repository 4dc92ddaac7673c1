#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/catalogue.h"
#include "tuner/bundle.h"

namespace foretime::cli {

/// Files that a model is to learn from, as it reads them.
struct TuningInput {
  std::vector<std::string> files;  // graph files and folders, for data.train
  std::vector<std::string> notes;  // what was left out, for people
};

/// Sorts `inputs` (files, folders and patterns): what is no .npz, .pb, packed collection or folder is tuning records,
/// which are packed into `packed` as graphs of the model's representation, by the stage tables in `stages` and the
/// machine that each record names, as libforetime does. Failed measurements are left out. `model` stands for the bundle
/// in messages, `admit` as in data::list_groups. Throws data::DataError, and configs::SettingsError for records without
/// `stages`.
TuningInput prepare_tuning_input(const std::vector<std::string>& inputs, const std::string& stages,
                                 const std::string& model, const tuner::Terms& terms,
                                 const std::filesystem::path& packed, const data::FileCheck& admit);

}  // namespace foretime::cli
