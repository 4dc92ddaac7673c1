#pragma once

#include <torch/types.h>

#include "comm/communicator.h"
#include "configs/settings.h"
#include "sharding/dataset_index.h"
#include "worker/store/group_store.h"

namespace foretime::worker {

/// Returns the vectors of node types for a model with model.node_types.vectors fasttext: [types,
/// model.node_type_embedding] float, else undefined. Rank 0 reads data.node_type_vectors, or trains the vectors on
/// walks through all training groups (held-out candidates too, since no label is used) and opens groups that `store`
/// does not hold. Every rank makes the call and gets equal bytes. Throws data::DataError, on other ranks RemoteError.
torch::Tensor make_type_vectors(const configs::Settings& settings, const sharding::DatasetIndex& dataset, int64_t types,
                                const GroupStore& store, comm::Communicator& comm);

}  // namespace foretime::worker
