#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/dataset/inspect.h"
#include "data/frontends/ansor/records/record_reader.h"

namespace foretime::data {

/// Holds the output of `foretime data inspect` for a file of tuning records. Times are in seconds. Spreads are (largest
/// − smallest) / mean of repeated measurements.
struct RecordReport {
  std::string file;
  RecordCounts counts;
  std::map<std::string, int64_t> versions, targets;  // number of records of each
  int64_t copies = 0;  // records that repeat another one, including its time; not counted below
  int64_t workloads = 0;
  int64_t fewest_records = 0, most_records = 0;  // records in one workload
  int64_t steps = 0, longest_schedule = 0;       // total and longest schedule
  RuntimeSummary costs;                          // mean cost of each record
  double mean_range = 0.0;                       // mean over workloads of log10(slowest / fastest)
  int64_t with_repeats = 0;                      // records with several costs
  RuntimeSummary repeat_spread;                  // spread of the costs of such records
  int64_t distinct_schedules = 0;                // distinct pairs of workload and steps
  int64_t measured_again = 0;                    // distinct schedules with several records
  RuntimeSummary retest_spread;                  // spread of their mean costs
  double noise_ceiling =
      0.0;  // mean τ-b that no model can pass, over workloads with schedules measured again; NaN if none
};

/// Reads a whole file; takes some 64 bytes of memory for each record. Throws DataError if it cannot be read or holds no
/// record.
RecordReport inspect_records(const std::filesystem::path& file);

/// Returns some lines of text, each ended by a newline.
std::string to_text(const RecordReport& report);

/// Returns an indented JSON array with one object for each report; undefined numbers are null.
std::string to_json(const std::vector<RecordReport>& reports);

}  // namespace foretime::data
