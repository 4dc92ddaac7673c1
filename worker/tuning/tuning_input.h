#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset/group_files.h"
#include "inference/bundle/bundle.h"

namespace foretime::worker {

/// Files that a model is to learn from, as they were named.
struct TuningSources {
  const std::vector<std::string>& inputs;  // files, folders and patterns
  std::string dags;                        // compute DAGs of tuning records; "" where there are none
  std::string member;                      // of save_json text, as in data::read_tir_groups
  std::string model;                       // what messages call the bundle
};

/// Those files, as the model reads them.
struct TuningInput {
  std::vector<std::string> files;  // graph files and folders, for data.train
  std::vector<std::string> notes;  // what was left out, for people
};

/// Sorts files: .npz, .pb, packed collections and folders are taken as they are; save_json text and tuning records, all
/// the rest, are packed as graphs of the model's representation into files whose names begin with `packed`. Records are
/// read with these compute DAGs and for the machine that each names, text for the bundle's machine, as libforetime
/// does. Failed measurements and workloads of one program are left out. `admit` as in data::list_groups. Throws
/// data::DataError, and configs::SettingsError for records without compute DAGs.
TuningInput prepare_tuning_input(const TuningSources& sources, const inference::ScoringSpec& spec,
                                 const std::filesystem::path& packed, const data::FileCheck& admit);

}  // namespace foretime::worker
