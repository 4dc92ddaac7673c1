#pragma once

#include <torch/types.h>

#include "comm/communicator.h"
#include "configs/settings.h"
#include "sharding/dataset_index.h"
#include "worker/store/group_store.h"

namespace foretime::worker {

/// The vectors of node types that a model with model.node_types.vectors fasttext has: [types,
/// model.node_type_embedding] float, undefined for any other. Rank 0 reads data.node_type_vectors, or trains on walks
/// through all training groups (held-out candidates too: no label is looked at), opening those that `store` does not
/// hold; every rank gets the same bytes. Every rank makes the call. Throws data::DataError (RemoteError on the others).
torch::Tensor make_type_vectors(const configs::Settings& settings, const sharding::DatasetIndex& dataset, int64_t types,
                                const GroupStore& store, comm::Communicator& comm);

}  // namespace foretime::worker
