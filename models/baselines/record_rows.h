#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_set>
#include <vector>

#include "data/frontends/ansor/records/record_reader.h"
#include "models/baselines/program_rows.h"

namespace foretime::models {

/// Features that were computed from tuning records, and what became of the others.
struct RecordRows {
  ProgramRows rows;            // by workload key, then by line
  std::vector<int64_t> lines;  // [programs] 0-based, of the record file
  data::RecordCounts counts;
  int64_t without_dag = 0, without_features = 0;
  std::string first_reason;  // of the latter: line and why
};

/// 0-based lines of a record file.
using RecordLines = std::unordered_set<int64_t>;

/// Which records an experiment trains on and tests on.
struct RecordSplit {
  RecordLines train, test;
};

/// Reads {"train_lines": {workload key: [lines]}, "eval_lines": {...}}, as FORMATS.md's xgb_baseline.json has them.
/// Throws DataError where a member is missing or a line is in both.
RecordSplit read_record_split(const std::filesystem::path& file);

/// Replays each record that was measured well and computes its features (store_features.h, in the order of FORMATS.md,
/// so that they do not depend on hash tables). `lines`: only these; empty: all. `per_workload`: at most so many of a
/// workload, drawn by `seed`; 0: all. Throws DataError where a file cannot be read, where one of `lines` is no record
/// that was measured well, and where no record has features.
RecordRows read_record_rows(const std::filesystem::path& records, const std::filesystem::path& dags,
                            const RecordLines& lines = {}, int64_t per_workload = 0, uint64_t seed = 0);

/// The programs of these lines, in their order.
ProgramRows rows_of_lines(const RecordRows& rows, const RecordLines& lines);

}  // namespace foretime::models
