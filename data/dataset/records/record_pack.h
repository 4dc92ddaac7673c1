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
/// that was measured on several machines becomes a group for each machine. Files are streamed twice or more: once to
/// find the records of each workload, then by each worker for its workloads, as many at a time as fit into its memory.
namespace foretime::data {

/// Determines the hardware on which a record's program was measured.
struct RecordMachines {
  std::optional<Hardware> all = {};  // the hardware of all records; nullopt: from each record and `known`
  Machines known = {};               // machines of the machine files

  /// Returns the hardware of a record. Throws DataError if a GPU is unknown.
  Hardware hardware_of(const TuningRecord& record) const;
  /// Returns a key that separates records of one workload whose run times cannot be compared.
  std::string group_key(const TuningRecord& record) const;
};

/// Selects the records that are packed.
struct RecordChoice {
  /// 0-based lines to take of each file, [files]; nullopt or missing: the whole file.
  std::vector<std::optional<std::vector<int64_t>>> lines = {};
  std::set<std::string> never = {};  // keys of workloads to skip
  int64_t most = 0;                  // most records of a group; a hash of position and seed chooses them; 0: all
  int64_t least = 2;                 // groups with fewer successful records, or fewer chosen ones, are skipped
  bool failures = true;              // failed measurements are packed, too
  uint64_t seed = 1;                 // seed of the choice of records
};

/// Describes one workload of the files on one machine.
struct RecordGroup {
  std::string workload_key, name;  // name: group_name of the key, and @machine if the workload has several groups
  std::string key;                 // RecordMachines::group_key
  std::shared_ptr<const ComputeDag> dag;
  std::vector<int64_t> places;  // positions of the chosen records, ascending: index of the file << 32 | 0-based line
  int64_t successful = 0;       // number of successful records, before the choice
};

/// Holds the result of the first pass over the files.
struct RecordIndex {
  std::vector<std::filesystem::path> files;
  std::vector<RecordGroup> groups;  // ordered by the position of the last record
  RecordMachines machines = {};
  int64_t records = 0;      // chosen records of all groups
  int64_t failed = 0;       // failed measurements in the files
  int64_t malformed = 0;    // lines that are no records
  int64_t without_dag = 0;  // records of workloads without a DAG
  int64_t skipped = 0;      // chosen records of groups that RecordChoice::least skips
  int64_t copies = 0;       // records that repeat another one, including its time (TuningRecord::measurement_hash)
  bool failures = true;     // failed records are included
  bool gpu = false;         // all programs are for GPUs, whose graphs have additional columns; false: for CPUs
  std::vector<std::string> missing_keys;   // workloads without a DAG, only the first ones
  std::string first_malformed;             // FILE:LINE: reason; 1-based line
  std::set<std::string> unknown_machines;  // named by records, but unknown to `machines`
};

/// Reads all files once, and chooses the records of each group. Throws DataError if a file cannot be read or is shorter
/// than its chosen lines, if records of CPUs and GPUs are mixed or contradict `machines.all`, or if a GPU is unknown.
RecordIndex index_records(const std::vector<std::filesystem::path>& files, const DagTable& dags,
                          const RecordChoice& choice, RecordMachines machines = {});

/// Returns a header for each group of the index, for distribute_groups and PackParts (data/dataset/pack.h). Only name,
/// kind and sizes are set, and the sizes are estimates.
std::vector<GroupHeader> headers_of(const RecordIndex& index, configs::Representation representation);

/// Holds the options of pack_records.
struct RecordPackOptions {
  configs::Representation representation = configs::Representation::loops;  // loops or curve
  int64_t columns = 0;                    // number of node features to keep, see make_program_graphs; 0: all
  uint64_t memory = uint64_t{256} << 20;  // bytes for one worker; limits how many workloads are open at once
  int64_t least = 1;                      // groups with fewer successful records that can be replayed are skipped
};

/// Counts the results of packing.
struct RecordPackCounts {
  int64_t programs = 0;       // replayed records, with those that were skipped afterwards
  int64_t refused = 0;        // records that cannot be replayed
  int64_t skipped = 0;        // replayed records of groups that RecordPackOptions::least skips
  int64_t failed = 0;         // packed records whose measurement failed
  std::string first_refusal;  // FILE:LINE: reason why the first refused record cannot be replayed; "": none
};

/// Packs the groups `groups` of the index (ascending) into `file`. A record's candidate id is its 0-based line, after
/// the file's name (record_file_names) and a colon if there are several files; its run time is the mean of its costs,
/// infinite if its measurement failed. Counts and skips records that cannot be replayed. Throws DataError if a file has
/// changed since index_records or no group is left, and FileError if writing fails.
RecordPackCounts pack_records(const std::filesystem::path& file, const RecordIndex& index,
                              std::span<const int64_t> groups, const RecordPackOptions& options);

}  // namespace foretime::data
