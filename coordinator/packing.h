#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "comm/communicator.h"
#include "data/packed.h"

/// Packing over ranks and threads.
namespace foretime::coordinator {

struct PackOptions {
  int64_t threads = 1;                  // of each rank
  uint64_t memory = uint64_t{1} << 30;  // bytes that a rank's threads may hold together; a larger group is packed alone
  data::ExtrasMaker extras;             // called by all of them
};

/// Every rank calls it with the headers of rank 0 (see share_headers). Each worker, a thread of a rank, packs its share
/// into a part beside `file`, which all ranks must see under this name; rank 0 puts the parts together and renames. The
/// bytes do not depend on the number of workers. Where one worker fails, all ranks throw as run_together says, parts
/// are gone, and what `file` was stays.
void pack_collection(comm::Communicator& comm, const std::filesystem::path& file,
                     const std::vector<data::GroupHeader>& headers, const PackOptions& options);

/// Rank 0's headers, on every rank.
std::vector<data::GroupHeader> share_headers(comm::Communicator& comm, const std::vector<data::GroupHeader>& headers);

}  // namespace foretime::coordinator
