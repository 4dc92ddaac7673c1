#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset/pack.h"
#include "data/dataset/records/record_pack.h"

namespace foretime::data {

/// Holds the options of `foretime data pack-records`.
struct RecordPackRequest {
  configs::Representation representation = configs::Representation::loops;
  std::string out, dags;                  // output collection, and file of compute DAGs
  std::vector<std::filesystem::path> in;  // tuning records
  std::string lines;                      // JSON file with the 0-based lines of in[0] to take; "": all lines
  std::string member;                     // member of the JSON file `lines` that has the lines; "": the whole file
  // JSON file: list of {network, first_line, lines}, the lines of in[0] that belong to each network; "": none
  std::string networks;
  std::vector<std::string> take, never;  // networks to take (empty: all), and networks whose workloads are skipped
  std::vector<std::string> hardware;     // KEY=VALUE of data.hardware for all records; empty: from each record
  std::vector<std::string> targets;      // machine files, see configs::read_machine_file
  int64_t most = 0, least = 2;           // RecordChoice::most and RecordChoice::least
  bool without_failures = false;         // failed measurements are skipped
  bool force = false;                    // replace a file of another kind, or an input
  int64_t threads = 0;                   // number of workers of each rank; 0: the rank's share of the cores
  int64_t memory_mib = 1024;             // MiB of memory that a rank may take
  uint64_t seed = 1;                     // seed of the selection of records
};

/// Identifies one process of a packing by several processes that see the same folder.
struct PackShare {
  int64_t process = 0, processes = 1, threads = 1;  // index and number of processes; threads of each process
  std::string token = {};  // number as text, equal in all processes, different in other runs that write the same file
};

/// Packs tuning records into a collection in three steps, which all processes take together: construct, pack, and join,
/// the last only in process 0. All throw DataError, and FileError if writing fails.
class RecordPacking {
 public:
  /// Reads all files and plans the parts. Throws configs::SettingsError for wrong hardware, DataError without a group.
  RecordPacking(const RecordPackRequest& request, const PackShare& share);
  /// Packs the share of this process into parts next to the collection.
  void pack();
  /// Joins the parts of all processes, whose pack() must have returned. Returns a summary for people.
  std::string join() const;

 private:
  RecordPackRequest request_;
  RecordIndex index_;
  RecordPackOptions options_;
  std::optional<PackParts> parts_;
  std::mutex mutex_;  // guards counts_ while pack() runs
  RecordPackCounts counts_;
};

}  // namespace foretime::data
