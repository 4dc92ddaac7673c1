#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "configs/settings.h"
#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "data/frontends/ansor/records/record.h"
#include "data/frontends/loops/loop_columns.h"
#include "data/frontends/loops/machines.h"
#include "data/graphs/group_header.h"

/// Packs tuning records: each workload becomes a group of program graphs with its records as candidates; a workload
/// that was measured on several machines becomes a group for each. Files are streamed twice or more: once to find the
/// records of each workload, then by each worker for its workloads, as many at a time as fit into its memory.
namespace foretime::data {

/// Determines the hardware of a record's programs: one for all, or from records and known machines.
struct RecordMachines {
  std::optional<Hardware> all = {};
  Machines known = {};

  Hardware hardware_of(const TuningRecord& record) const;
  /// Returns a key that separates records of one workload whose run times cannot be compared.
  std::string group_key(const TuningRecord& record) const;
};

/// Selects the records that are packed.
struct RecordChoice {
  /// Lists 0-based lines of each file; no value: the whole file.
  std::vector<std::optional<std::vector<int64_t>>> lines = {};
  std::set<std::string> never = {};  // keys of skipped workloads
  int64_t most = 0;                  // limit of records of a workload, chosen by a hash of their position; 0: all
  int64_t least = 2;                 // workloads with fewer successful records are skipped
  bool failures = true;              // failed measurements are packed, too
  uint64_t seed = 1;                 // seed of the selection of records
};

/// Describes one workload of the files on one machine.
struct RecordGroup {
  std::string workload_key, name;  // name: the key without quotes and blanks, and @machine if there are several
  std::string key;                 // RecordMachines::group_key
  std::shared_ptr<const ComputeDag> dag;
  std::vector<int64_t> places;  // positions of its records, ascending: file << 32 | 0-based line
  int64_t successful = 0;       // successful records
};

/// Holds the result of the first pass over the files.
struct RecordIndex {
  std::vector<std::filesystem::path> files;
  std::vector<RecordGroup> groups;  // ordered by their last records
  RecordMachines machines = {};
  int64_t records = 0, failed = 0, malformed = 0, without_dag = 0, skipped = 0;
  int64_t copies = 0;    // records that repeat another one, including its time (TuningRecord::measurement_hash)
  bool failures = true;  // failed records are included
  bool gpu = false;      // all programs are for GPUs, whose graphs have additional columns
  std::vector<std::string> missing_keys;   // workloads without a DAG, only the first ones
  std::string first_malformed;             // FILE:LINE: reason; 1-based line
  std::set<std::string> unknown_machines;  // named by records, but unknown to `machines`
};

/// Reads all files once. Throws DataError if a file cannot be read, if records of CPUs and GPUs are mixed, or if a GPU
/// is unknown.
RecordIndex index_records(const std::vector<std::filesystem::path>& files, const DagTable& dags,
                          const RecordChoice& choice, RecordMachines machines = {});

/// Returns one header for each group, for distribute_groups and PackParts (data/dataset/pack.h); sizes are estimates.
std::vector<GroupHeader> headers_of(const RecordIndex& index, configs::Representation representation);

/// Holds the options of pack_records.
struct RecordPackOptions {
  configs::Representation representation = configs::Representation::loops;  // or curve
  int64_t columns = 0;                    // node features to keep, see make_program_graphs; 0: all
  uint64_t memory = uint64_t{256} << 20;  // bytes for one worker; limits how many workloads are open at once
  int64_t least = 1;                      // workloads with fewer usable successful records are skipped
};

/// Counts the results of packing.
struct RecordPackCounts {
  int64_t programs = 0, refused = 0, skipped = 0;  // skipped: records of workloads with too few records
  int64_t failed = 0;                              // failed programs, which are included in programs
  std::string first_refusal;
};

/// Packs the groups `groups` of the index (ascending) into `file`. A record's candidate id is its 0-based line, after
/// the file's name (record_file_names) and a colon if there are several files; its run time is the mean of its costs,
/// infinite if its measurement failed. Counts and skips records that cannot be replayed. Throws DataError, also if no
/// group is left.
RecordPackCounts pack_records(const std::filesystem::path& file, const RecordIndex& index,
                              std::span<const int64_t> groups, const RecordPackOptions& options);

}  // namespace foretime::data
