#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "data/packed.h"

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

/// Packs the groups that `groups` lists, in this order. Throws DataError.
void pack_groups(const std::filesystem::path& file, const std::vector<GroupHeader>& headers,
                 std::span<const int64_t> groups, MemoryBudget& memory, const ExtrasMaker& extras);

/// Puts parts together, of which `lists[i]` says what part i holds; files of empty lists are not looked at. Throws
/// DataError.
void join_parts(const std::filesystem::path& file, const std::vector<std::filesystem::path>& parts,
                const std::vector<std::vector<int64_t>>& lists);

}  // namespace foretime::data
