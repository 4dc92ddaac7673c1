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
#include "data/files/packed.h"

/// Packs many groups by several workers: each writes a part, a separate collection next to the final file, and the
/// parts are joined. The result does not depend on the number of workers.
namespace foretime::data {

/// Returns the cost of packing a group, in uncompressed bytes to read.
double packing_cost(const GroupHeader& header);

/// Returns an upper estimate of the peak memory for packing a group, in bytes. Layout .npz are streamed, others are
/// held in memory.
uint64_t packing_memory(const GroupHeader& header);

/// Distributes groups over workers, the costliest first, each to the least loaded worker. Returns an ascending list for
/// every worker; some may be empty. A pure function of its arguments.
std::vector<std::vector<int64_t>> distribute_groups(const std::vector<GroupHeader>& headers, int64_t workers);

/// Limits the memory that several threads hold together. A request above the limit waits until it is the only one.
class MemoryBudget {
 public:
  explicit MemoryBudget(uint64_t limit) : limit_(limit) {}

  class Share {
   public:
    Share(MemoryBudget& budget, uint64_t bytes);
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

   private:
    MemoryBudget& budget_;
    uint64_t bytes_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  uint64_t limit_, used_ = 0;
};

/// Adds the group of a header to a collection: a layout .npz is streamed, others are loaded first.
void add_file(PackedWriter& writer, const GroupHeader& header);

/// Packs the given groups (indices into `headers`) in this order. Throws DataError.
void pack_groups(const std::filesystem::path& file, const std::vector<GroupHeader>& headers,
                 std::span<const int64_t> groups, MemoryBudget& memory);

/// Joins parts into a collection. `lists[i]` lists the groups of part i; parts with empty lists are not read. A part
/// may lack groups that its packer skipped; `names`, of all groups, identify the present ones. Throws DataError.
void join_parts(const std::filesystem::path& file, const std::vector<std::filesystem::path>& parts,
                const std::vector<std::vector<int64_t>>& lists, const std::vector<std::string>& names);

/// Holds the resources and the plan maker for packing.
struct PackOptions {
  int64_t threads = 1;  // threads for each process
  uint64_t memory =
      uint64_t{1} << 30;  // bytes that all threads of a process hold together; a larger group is packed alone
};

/// Makes a collection in parts next to its file, one for each worker: threads of one process, or of several processes
/// that see the same folder and are constructed with the same arguments except `process`. A process makes and removes
/// the parts of workers process, process + processes, …. The first one removes files left by killed processes.
class PackParts {
 public:
  /// Plans the parts. `token`, a number, distinguishes them from those of another run that writes the same file.
  PackParts(std::filesystem::path file, const std::vector<GroupHeader>& headers, int64_t workers,
            const std::string& token, int64_t process = 0, int64_t processes = 1);
  ~PackParts();
  PackParts(const PackParts&) = delete;
  PackParts& operator=(const PackParts&) = delete;

  /// Writes one part: a collection of the given groups, in this order.
  using PartPacker = std::function<void(const std::filesystem::path& part, std::span<const int64_t> groups)>;
  /// Makes this process's parts, each in a thread. Rethrows the error of the first worker that failed.
  void pack(const PartPacker& pack_part) const;
  /// Packs the groups of `headers` into this process's parts.
  void pack(const std::vector<GroupHeader>& headers, const PackOptions& options) const;
  /// Joins all parts into the collection.
  void join() const;

 private:
  std::filesystem::path file_;
  std::vector<std::vector<int64_t>> lists_;   // [workers] indices of groups
  std::vector<std::filesystem::path> parts_;  // [workers]
  std::vector<std::string> names_;            // [groups]
  int64_t process_, processes_;
  AtomicFile lifetime_lock_;  // empty locked file that marks this process as alive and its parts as in use
};

/// Packs groups with the threads of this process. An existing `file` stays until the new collection is complete. Throws
/// DataError.
void pack_collection(const std::filesystem::path& file, const std::vector<GroupHeader>& headers,
                     const PackOptions& options);

/// Returns the number of workers for `groups` groups, at most one for each group.
int64_t pack_workers(size_t groups, int64_t processes, const PackOptions& options);

}  // namespace foretime::data
