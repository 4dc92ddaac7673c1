#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/no_copy.h"
#include "data/files/packed.h"

/// Packs many groups by several workers: each writes a part, a separate collection next to the final file, and the
/// parts are joined. The result does not depend on the number of workers.
namespace foretime::data {

/// Returns the cost of packing a group: an estimate of the uncompressed bytes to read.
double packing_cost(const GroupHeader& header);

/// Returns an upper estimate of the peak memory for packing a group, in bytes.
uint64_t packing_memory(const GroupHeader& header);

/// Distributes groups over workers, the costliest group first, each to the worker with the least cost so far. Returns
/// for every worker an ascending list of indices into `headers`, which may be empty. A pure function of its arguments.
std::vector<std::vector<int64_t>> distribute_groups(const std::vector<GroupHeader>& headers, int64_t workers);

/// Limits the memory that several threads hold together.
class MemoryBudget {
 public:
  explicit MemoryBudget(uint64_t limit) : limit_(limit) {}  // bytes

  /// Holds bytes during its lifetime. The constructor waits until they are free, or until no other share is held.
  class Share : NoCopy {
   public:
    Share(MemoryBudget& budget, uint64_t bytes);
    ~Share();

   private:
    MemoryBudget& budget_;
    uint64_t bytes_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  uint64_t limit_, used_ = 0;
};

/// Reads a group and adds it to a collection. Throws the errors of load_group and PackedWriter::add.
void add_file(PackedWriter& writer, const GroupHeader& header);

/// Packs `groups`, one or more indices into `headers`, in this order into `file`. Throws the errors of add_file.
void pack_groups(const std::filesystem::path& file, const std::vector<GroupHeader>& headers,
                 std::span<const int64_t> groups, MemoryBudget& memory);

/// Joins parts, which are collections, into the collection `file`, in the order of the groups' indices. `lists[i]` has
/// the ascending indices of the groups of part i; parts with empty lists are not read. A part may lack groups that its
/// packer skipped; `names`, [groups], identify the others. Throws DataError for damaged or wrong parts, and FileError.
void join_parts(const std::filesystem::path& file, const std::vector<std::filesystem::path>& parts,
                const std::vector<std::vector<int64_t>>& lists, const std::vector<std::string>& names);

/// Holds the resources for packing.
struct PackOptions {
  int64_t threads = 1;                  // number of threads of each process
  uint64_t memory = uint64_t{1} << 30;  // bytes that all threads of a process hold together (MemoryBudget)
};

/// Makes a collection in parts next to its file, one for each worker: threads of one process, or of several processes
/// that see the same folder and are constructed with the same arguments except `process`. A process makes and removes
/// the parts of workers process, process + processes, …. The first one removes files left by killed processes.
class PackParts : NoCopy {
 public:
  /// Plans one part for each of `workers` workers. `token`, a number as text, distinguishes their names from those of
  /// another run that writes the same file. `process` is the index of this process among `processes`.
  PackParts(std::filesystem::path file, const std::vector<GroupHeader>& headers, int64_t workers,
            const std::string& token, int64_t process = 0, int64_t processes = 1);
  ~PackParts();

  /// Writes one part: a collection of the given groups, in this order.
  using PartPacker = std::function<void(const std::filesystem::path& part, std::span<const int64_t> groups)>;
  /// Makes this process's parts, each in a thread. Rethrows the error of the failed part with the lowest number.
  void pack(const PartPacker& pack_part) const;
  /// Packs the groups of `headers`, those of the constructor, into this process's parts (pack_groups).
  void pack(const std::vector<GroupHeader>& headers, const PackOptions& options) const;
  /// Joins the parts of all processes, which must exist, into the collection (join_parts).
  void join() const;

 private:
  std::filesystem::path file_;
  std::vector<std::vector<int64_t>> lists_;   // [workers] indices of groups
  std::vector<std::filesystem::path> parts_;  // [workers]
  std::vector<std::string> names_;            // [groups]
  int64_t process_, processes_;
  AtomicFile lifetime_lock_;  // empty locked file that marks this process as alive and its parts as in use
};

/// Packs all groups of `headers`, in this order, with the threads of this process. An existing `file` stays until the
/// new collection is complete. Throws the errors of pack_groups and join_parts.
void pack_collection(const std::filesystem::path& file, const std::vector<GroupHeader>& headers,
                     const PackOptions& options);

/// Returns the number of workers: threads times processes, at most one for each of `groups` groups, at least 1.
int64_t pack_workers(size_t groups, int64_t processes, const PackOptions& options);

}  // namespace foretime::data
