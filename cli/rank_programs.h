#pragma once

#include <span>
#include <string>
#include <vector>

#include "inference/candidates/ranking.h"
#include "inference/scoring/model.h"

namespace foretime::cli {

/// Tuning records of all files together, a ranking a workload in the order of the first records. Candidates are counted
/// in their workload; ids are 0-based lines, after the file's name and a colon where there are several files. Costs in
/// records are not looked at. What cannot be scored is last, with +infinity; lines that are no records, and workloads
/// without a compute DAG, are left out; both are said on standard error. Throws DataError where nothing is left, and
/// for files that cannot be read; SettingsError without `dags`.
std::vector<inference::Ranking> rank_records(const std::shared_ptr<const inference::Model>& model,
                                             const std::vector<std::string>& files, const std::string& dags);

/// Programs of save_json text, a ranking a workload in the order of the first programs; ids are those of the records.
/// What cannot be scored is last, with +infinity. `member`: as in read_tir_groups.
std::vector<inference::Ranking> rank_tir(const inference::Model& model, const std::string& file,
                                         const std::string& member);

/// In the unit of the training data; empty where the model predicts none, or needs flops that are not known.
std::vector<double> predicted_runtimes(const inference::Model& model, std::span<const float> scores,
                                       std::span<const double> flops);

}  // namespace foretime::cli
