#pragma once

#include <filesystem>
#include <string>

#include "sharding/dataset_index.h"

/// Layout graphs known by their sizes alone, so that a plan can be made before there are files.
namespace foretime::sharding {

/// What stands for a column that the list does not have. The defaults are TpuGraphs' xla:random: its largest graph has
/// 3,143 configurable nodes among 43,615, and a graph has 11,648 candidates on average.
struct SizeAssumptions {
  double configurable_share = 3143.0 / 43615.0;
  int64_t candidates = 11648;
};

struct SizeList {
  DatasetIndex dataset;  // every group trains; named by the column `name`, or by its line
  bool assumed_configurable = false;
  bool assumed_candidates = false;
};

/// Reads a CSV file: a header line with the columns nodes and edges, and, if known, configurable, candidates and name,
/// in any order; then a line a graph. Throws data::DataError naming file, line, column, what was found and what was
/// expected; configs::SettingsError as count_parts does.
SizeList read_size_list(const std::filesystem::path& file, const configs::Settings& settings,
                        const SizeAssumptions& assumptions = {});

}  // namespace foretime::sharding
