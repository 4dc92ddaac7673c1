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

/// Packing of many groups by several workers: each writes a part, a collection of its own beside the final one, and the
/// parts are put together. The result is byte for byte what one worker writes, whatever their number.
namespace foretime::data {

/// How long a group takes to pack, in bytes that are read (uncompressed).
double packing_cost(const GroupHeader& header);

/// Memory that packing a group takes at its peak, in bytes: an upper estimate. Layout .npz are streamed, others held.
uint64_t packing_memory(const GroupHeader& header);

/// Shares groups among workers, the costliest first, each to the least loaded. Every worker's list ascends; some may be
/// empty. A pure function of the headers.
std::vector<std::vector<int64_t>> deal_groups(const std::vector<GroupHeader>& headers, int64_t workers);

/// Lets several threads hold memory up to a limit. Who asks for more than the limit waits until it is alone.
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

/// Adds the group that a header names to a collection: a layout .npz is streamed, others are loaded first.
void add_file(PackedWriter& writer, const GroupHeader& header);

/// Packs the groups that `groups` lists, in this order. Throws DataError.
void pack_groups(const std::filesystem::path& file, const std::vector<GroupHeader>& headers,
                 std::span<const int64_t> groups, MemoryBudget& memory, const PlanMaker& plans);

/// Puts parts together, of which `lists[i]` says what part i holds; files of empty lists are not looked at. A part may
/// lack groups of its list that its packer left out: `names`, of all groups, tell which it has. Throws DataError.
void join_parts(const std::filesystem::path& file, const std::vector<std::filesystem::path>& parts,
                const std::vector<std::vector<int64_t>>& lists, const std::vector<std::string>& names);

struct PackOptions {
  int64_t threads = 1;                  // of each process
  uint64_t memory = uint64_t{1} << 30;  // bytes that its threads may hold together; a larger group is packed alone
  PlanMaker plan_maker = {};            // called by all of them
};

/// A collection in parts beside its file, one for each of several workers: threads of one process, or of several that
/// see the same folder and are made with the same arguments, but for `process`. A process makes and removes the parts
/// of workers process, process + processes, …. The first one removes what killed processes left beside the file.
class PackParts {
 public:
  /// `token`, a number, sets parts apart from those of another run into the same file.
  PackParts(std::filesystem::path file, const std::vector<GroupHeader>& headers, int64_t workers,
            const std::string& token, int64_t process = 0, int64_t processes = 1);
  ~PackParts();
  PackParts(const PackParts&) = delete;
  PackParts& operator=(const PackParts&) = delete;

  /// Writes one part: a collection of these groups, in this order.
  using PartPacker = std::function<void(const std::filesystem::path& part, std::span<const int64_t> groups)>;
  /// Makes this process's parts, each in a thread. Throws what the first worker that failed threw.
  void pack(const PartPacker& pack_part) const;
  /// Packs the groups that headers name into parts.
  void pack(const std::vector<GroupHeader>& headers, const PackOptions& options) const;
  /// Makes the collection of all parts.
  void join() const;

 private:
  std::filesystem::path file_;
  std::vector<std::vector<int64_t>> lists_;   // [workers] groups
  std::vector<std::filesystem::path> parts_;  // [workers]
  std::vector<std::string> names_;            // of all groups
  int64_t process_, processes_;
  AtomicFile sign_;  // empty and locked: this process lives, and its parts are no leftovers
};

/// Packs by the threads of this process. What `file` was stays until the collection is complete. Throws DataError.
void pack_collection(const std::filesystem::path& file, const std::vector<GroupHeader>& headers,
                     const PackOptions& options);

/// How many workers pack so many groups: no more than there are groups.
int64_t pack_workers(size_t groups, int64_t processes, const PackOptions& options);

}  // namespace foretime::data
