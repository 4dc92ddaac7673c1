#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/dataset/inspect.h"
#include "data/frontends/ansor/records/record_reader.h"

namespace foretime::data {

/// Holds the output of `foretime data inspect` for a file of tuning records. Only successful records count, except in
/// `counts`. Times are in seconds. Spreads are (largest − smallest) / mean of repeated measurements.
struct RecordReport {
  std::string file;
  RecordCounts counts;
  std::map<std::string, int64_t> versions, targets;  // number of records by format version, and by target
  int64_t copies = 0;  // records that repeat another one, including its time; left out of the other members
  int64_t workloads = 0;
  int64_t fewest_records = 0, most_records = 0;  // smallest and largest number of records of a workload
  int64_t steps = 0, longest_schedule = 0;       // steps of all schedules together, and of the longest one
  RuntimeSummary costs;                          // mean cost of each record
  double mean_range = 0.0;                       // mean over workloads of log10(slowest / fastest)
  int64_t with_repeats = 0;                      // records with several costs
  RuntimeSummary repeat_spread;                  // spread of the costs of each record with several costs
  int64_t distinct_schedules = 0;                // distinct pairs of workload and steps
  int64_t measured_again = 0;                    // distinct schedules with several records
  RuntimeSummary retest_spread;                  // spread of the records' mean costs of each such schedule
  // mean of noise_ceiling_tau over workloads with schedules that have several records; NaN if there are none
  double noise_ceiling = 0.0;
};

/// Reads a whole file in 64 bytes of memory for each record. Throws DataError if it cannot be read or has no record.
RecordReport inspect_records(const std::filesystem::path& file);

/// Returns some lines of text, each ended by a newline.
std::string to_text(const RecordReport& report);

/// Returns an indented JSON array with one object for each report; undefined numbers are null.
std::string to_json(const std::vector<RecordReport>& reports);

}  // namespace foretime::data
