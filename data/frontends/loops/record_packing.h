#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset/pack.h"
#include "data/frontends/loops/record_pack.h"

namespace foretime::data {

/// Which tuning records become which collection: the options of `foretime data pack-records`.
struct RecordPackRequest {
  configs::Representation representation = configs::Representation::loops;
  std::string out, dags;                  // the collection, and the file of compute DAGs
  std::vector<std::filesystem::path> in;  // tuning records
  std::string lines, member;              // JSON (or a member of it) with the 0-based lines of in[0] to take; "": all
  std::string networks;                   // JSON: which lines of in[0] belong to which network; "": not said
  std::vector<std::string> take, never;   // networks to take, and networks whose workloads are left out everywhere
  std::vector<std::string> hardware;      // KEY=VALUE of data.hardware; empty: as each record says
  std::vector<std::string> targets;       // files of configs::read_machine_file
  int64_t most = 0, least = 2;            // records of a workload; most 0: all
  bool without_failures = false;          // measurements that failed are left out
  bool force = false;                     // replace a file of another kind, or an input
  int64_t threads = 0, memory_mib = 1024;
  uint64_t seed = 1;  // of the choice of records
};

/// The part of one process in packing: of processes that see the same folder and are made with the same `token`, which
/// sets them apart from another run into the same file.
struct PackShare {
  int64_t process = 0, processes = 1, threads = 1;
  std::string token = {};
};

/// Packs tuning records into a collection in three steps, which all processes take together: construct, pack, and join
/// in process 0 alone. All of them throw DataError; the constructor also configs::SettingsError.
class RecordPacking {
 public:
  RecordPacking(const RecordPackRequest& request, const PackShare& share);
  /// Packs the share of this process into parts beside the collection.
  void pack();
  /// Makes the collection of all parts. Returns what was packed and left out, for people.
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
