#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "models/model.h"

namespace foretime::worker {

/// Compares parameters and buffers of the model on all ranks after `step` steps. Throws coordinator::RunError on every
/// rank, naming the first rank and tensor that differ from rank 0. All ranks call it.
void compare_replicas(const models::CostModel& model, int64_t step, comm::Communicator& comm);

}  // namespace foretime::worker
