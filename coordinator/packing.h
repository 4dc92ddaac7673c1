#pragma once

#include <filesystem>
#include <vector>

#include "comm/communicator.h"
#include "data/dataset/pack.h"

/// Packing over ranks and threads.
namespace foretime::coordinator {

/// Every rank calls it with the headers of rank 0 (see share_headers). Each worker, a thread of a rank, packs its share
/// into a part beside `file`, which all ranks must see under this name; rank 0 puts the parts together and renames. The
/// bytes do not depend on the number of workers. Where one worker fails, all ranks throw as comm::run_together says,
/// parts are gone, and what `file` was stays.
void pack_collection(comm::Communicator& comm, const std::filesystem::path& file,
                     const std::vector<data::GroupHeader>& headers, const data::PackOptions& options);

/// Rank 0's headers, on every rank.
std::vector<data::GroupHeader> share_headers(comm::Communicator& comm, const std::vector<data::GroupHeader>& headers);

}  // namespace foretime::coordinator
