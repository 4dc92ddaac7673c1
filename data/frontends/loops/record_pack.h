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

/// Packing of tuning records: each workload becomes a group of program graphs, its records the candidates; one that was
/// measured on several machines becomes a group for each. Files are streamed, twice or more: once to find where the
/// workloads' records are, then by each worker for its own workloads, as many at a time as fit into its memory.
namespace foretime::data {

/// What programs of a record run on: the same for all, or as records and known machines say.
struct RecordMachines {
  std::optional<Hardware> all = {};
  Machines known = {};

  Hardware hardware_of(const TuningRecord& record) const;
  /// Sets apart records of one workload whose run times cannot be compared.
  std::string group_key(const TuningRecord& record) const;
};

/// Which records are packed.
struct RecordChoice {
  /// 0-based lines of each file; absent: all of the file.
  std::vector<std::optional<std::vector<int64_t>>> lines = {};
  std::set<std::string> never = {};  // workload keys that are left out
  int64_t most = 0;                  // records of a workload, chosen by hash of their place; 0: all
  int64_t least = 2;                 // workloads with fewer records that ran are left out
  bool failures = true;              // takes measurements that failed, too
  uint64_t seed = 1;                 // of the choice
};

/// One workload of the files, on one machine.
struct RecordGroup {
  std::string workload_key, name;  // name: the key without quotes and blanks, and @machine where there are several
  std::string key;                 // RecordMachines::group_key
  std::shared_ptr<const ComputeDag> dag;
  std::vector<int64_t> places;  // of its records, ascending: file << 32 | 0-based line
  int64_t ran = 0;              // of all its records, those that did not fail
};

/// What the first pass finds.
struct RecordIndex {
  std::vector<std::filesystem::path> files;
  std::vector<RecordGroup> groups;  // in the order of their last records
  RecordMachines machines = {};
  int64_t records = 0, failed = 0, malformed = 0, without_dag = 0, left_out = 0;
  int64_t copies = 0;    // records that repeat another one in all, also its time (TuningRecord::measurement_hash)
  bool failures = true;  // the failed ones are among the records
  bool gpu = false;      // all are of programs for GPUs, whose graphs have columns of their own
  std::vector<std::string> missing_keys;   // of workloads without a DAG, the first ones
  std::string first_malformed;             // FILE:LINE: why, lines from 1 on
  std::set<std::string> unknown_machines;  // that records name and `machines` does not know
};

/// Reads all files once. Throws DataError where a file cannot be read, where some records are of CPUs and others of
/// GPUs, and where nothing is known of a GPU.
RecordIndex index_records(const std::vector<std::filesystem::path>& files, const DagTable& dags,
                          const RecordChoice& choice, RecordMachines machines = {});

/// One header a group, for deal_groups and PackParts (data/dataset/pack.h): sizes are estimates.
std::vector<GroupHeader> headers_of(const RecordIndex& index, configs::Representation representation);

struct RecordPackOptions {
  configs::Representation representation = configs::Representation::loops;  // or curve
  int64_t columns = 0;                    // of node features, as make_program_graphs takes them; 0: all that there are
  uint64_t memory = uint64_t{256} << 20;  // of one worker, bytes: bounds how many workloads are open at once
  int64_t least = 1;                      // workloads with fewer records that ran and can be replayed are left out
};

struct RecordPackCounts {
  int64_t programs = 0, refused = 0, left_out = 0;  // left_out: records of workloads with too few of them
  int64_t failed = 0;                               // of the programs, those that failed
  std::string first_refusal;
};

/// Packs the groups `groups` of the index (ascending) into `file`. A record's candidate id is its 0-based line, after
/// the file's name (record_file_names) and a colon where there are several files, its run time the mean of its costs,
/// infinite where its measurement failed. Records that cannot be replayed are counted and left out. A file without
/// groups is an error. Throws DataError.
RecordPackCounts pack_records(const std::filesystem::path& file, const RecordIndex& index,
                              std::span<const int64_t> groups, const RecordPackOptions& options);

}  // namespace foretime::data
