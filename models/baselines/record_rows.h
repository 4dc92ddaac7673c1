#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_set>
#include <vector>

#include "data/frontends/ansor/records/record_reader.h"
#include "models/baselines/program_rows.h"

namespace foretime::models {

/// Holds features that were computed from tuning records, and counts of the records without features.
struct RecordRows {
  ProgramRows rows;              // ordered by workload key, then by line
  std::vector<int64_t> lines;    // [programs] 0-based lines of the record file
  data::RecordCounts counts;     // lines and records that were read
  int64_t without_dag = 0;       // number of records whose workload is not in the file of DAGs
  int64_t without_features = 0;  // number of records with a DAG whose replay or features failed
  std::string first_reason;      // "file:line: reason" of the first of these; "" if there is none
};

/// 0-based lines of a record file.
using RecordLines = std::unordered_set<int64_t>;

/// Replays records of the file `records` on the DAGs of the file `dags`, and computes features in the order of
/// sort_store_features: of all successfully measured records, or of those on `lines` (unless empty), including failed
/// ones. Throws DataError if a file cannot be read, if one of `lines` is not a record, or if no record has features.
RecordRows read_record_rows(const std::filesystem::path& records, const std::filesystem::path& dags,
                            const RecordLines& lines = {});

}  // namespace foretime::models
