#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/dataset/inspect.h"
#include "data/frontends/ansor/records/record_reader.h"

namespace foretime::data {

/// What `foretime data inspect` prints of a file of tuning records. Times are seconds. Spreads are (largest − smallest)
/// / mean of several measurements of one thing.
struct RecordReport {
  std::string file;
  RecordCounts counts;
  std::map<std::string, int64_t> versions, targets;  // records of each
  int64_t copies = 0;  // records that repeat another one in all, also its time: not counted in what follows
  int64_t workloads = 0;
  int64_t fewest_records = 0, most_records = 0;  // of a workload
  int64_t steps = 0, longest_schedule = 0;       // steps of all records, of the longest one
  RuntimeSummary costs;                          // mean cost of each record
  double mean_range = 0.0;                       // mean over workloads of log10(slowest / fastest)
  int64_t with_repeats = 0;                      // records that hold several costs
  RuntimeSummary repeat_spread;                  // of those
  int64_t distinct_schedules = 0;                // workload and steps
  int64_t measured_again = 0;                    // distinct schedules with several records
  RuntimeSummary retest_spread;                  // of their mean costs
  double noise_ceiling =
      0.0;  // mean τ-b that no model can pass, over workloads with schedules measured again; NaN if none
};

/// Reads a whole file; memory is some 64 bytes a record. Throws DataError where it cannot be read or holds no record.
RecordReport inspect_records(const std::filesystem::path& file);

/// Some lines of text, the last one ended.
std::string to_text(const RecordReport& report);

/// A JSON array of one object a report, indented; numbers that are not defined are null.
std::string to_json(const std::vector<RecordReport>& reports);

}  // namespace foretime::data
