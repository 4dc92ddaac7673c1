#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "models/model.h"

namespace foretime::worker {

/// Compares the weights and running statistics of all ranks after `step` steps, by checksums of their bytes: 8 bytes a
/// tensor travel. Throws coordinator::RunError on every rank where they are not those of rank 0, naming the first rank
/// and tensor. All ranks call it.
void compare_replicas(const models::CostModel& model, int64_t step, comm::Communicator& comm);

}  // namespace foretime::worker
