#pragma once

#include <torch/types.h>

#include "comm/communicator.h"
#include "configs/settings.h"
#include "sharding/dataset_index.h"
#include "worker/store/group_store.h"

namespace foretime::worker {

/// Returns the vectors of node types, [types, model.node_type_embedding] float32 on the CPU; undefined unless
/// model.node_types.vectors is fasttext. Rank 0 reads them from data.node_type_vectors or, if that is "", trains them
/// on walks through all training groups (held-out candidates too), and opens groups that `store` does not have. Every
/// rank calls it and gets equal bytes. Throws data::DataError on rank 0, RemoteError on others.
torch::Tensor make_type_vectors(const configs::Settings& settings, const sharding::DatasetIndex& dataset, int64_t types,
                                const GroupStore& store, comm::Communicator& comm);

}  // namespace foretime::worker
