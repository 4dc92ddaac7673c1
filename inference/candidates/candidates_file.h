#pragma once

#include <filesystem>

#include "inference/candidates/candidates.h"

namespace foretime::inference {

/// The candidates of a file:
/// - JSON, {"candidates": […]} as read_candidates takes it;
/// - .npz in TpuGraphs' schema: node_config_feat (candidates, configurable, 18), with node_config_ids the configurable
///   nodes in ascending order, if it has them, or config_feat (candidates, 24).
/// Throws DataError with file, field, what was found and what was expected.
Candidates read_candidates_file(const std::filesystem::path& file, const CandidateSchema& schema);

}  // namespace foretime::inference
