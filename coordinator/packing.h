#pragma once

#include <filesystem>
#include <vector>

#include "comm/communicator.h"
#include "data/dataset/pack.h"

/// Packs collections on several ranks and threads.
namespace foretime::coordinator {

/// Packs the groups of `headers` into the packed collection `file`. Every rank calls it with the headers of rank 0 (see
/// share_headers). Each thread of each rank packs its share into a part next to `file`, which all ranks must see under
/// this name; rank 0 joins the parts and renames the result. The bytes do not depend on the number of threads. If
/// one thread fails, all ranks throw as comm::run_together does, the parts are removed, and `file` is unchanged.
void pack_collection(comm::Communicator& comm, const std::filesystem::path& file,
                     const std::vector<data::GroupHeader>& headers, const data::PackOptions& options);

/// Returns rank 0's `headers`, without featurizers, on every rank. Every rank calls it; other `headers` are ignored.
std::vector<data::GroupHeader> share_headers(comm::Communicator& comm, const std::vector<data::GroupHeader>& headers);

}  // namespace foretime::coordinator
