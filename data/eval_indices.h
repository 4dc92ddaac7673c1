#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/error.h"

namespace foretime::data {

/// Candidates by which TpuGraphs' validation graphs are judged: group name → candidate ids, in the order of the file.
using EvalIndices = std::map<std::string, std::vector<int64_t>>;

/// Reads {"graph": [ids, …], …}. Throws DataError for a file that is missing or not such JSON, and for a graph whose
/// ids are none, negative or repeated.
EvalIndices read_eval_indices(const std::filesystem::path& file);

}  // namespace foretime::data
