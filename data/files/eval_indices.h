#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/graphs/group.h"

namespace foretime::data {

/// Candidates by which TpuGraphs' validation graphs are judged: group name → candidate ids, in the order of the file.
/// An id that stands there several times counts as often: one of the published lists was sampled with replacement.
using EvalIndices = std::map<std::string, std::vector<int64_t>>;

/// Reads {"graph": [ids, …], …}, or such files of a folder, TpuGraphs' xla_random.json, xla_default.json and so on; of
/// these graphs' names are qualified by their collections (data/collection.h), and other files are not looked at.
/// Throws DataError for a file that is missing or not such JSON, and for a graph whose ids are none or
/// negative; likewise for a folder without any.
EvalIndices read_eval_indices(const std::filesystem::path& file);

/// The indices of a group, by its qualified name, else by its plain one; null where there are none.
const std::vector<int64_t>* find_indices(const EvalIndices& indices, Collection collection, const std::string& name);

}  // namespace foretime::data
