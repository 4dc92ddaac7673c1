#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_set>
#include <vector>

#include "data/frontends/ansor/records/record_reader.h"
#include "models/baselines/program_rows.h"

namespace foretime::models {

/// Holds features that were computed from tuning records, and the numbers of records without features.
struct RecordRows {
  ProgramRows rows;            // ordered by workload key, then by line
  std::vector<int64_t> lines;  // [programs] 0-based lines of the record file
  data::RecordCounts counts;
  int64_t without_dag = 0, without_features = 0;
  std::string first_reason;  // line and reason of the first record without features
};

/// 0-based lines of a record file.
using RecordLines = std::unordered_set<int64_t>;

/// Replays each successfully measured record and computes its features (store_features.h, in a fixed order that does
/// not depend on hash tables). `lines` restricts the records (empty: all). Throws DataError if a file cannot be read,
/// if one of `lines` is not a successfully measured record, or if no record has features.
RecordRows read_record_rows(const std::filesystem::path& records, const std::filesystem::path& dags,
                            const RecordLines& lines = {});

}  // namespace foretime::models
