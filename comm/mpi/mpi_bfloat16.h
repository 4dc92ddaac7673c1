#pragma once

#include <memory>

#include <torch/torch.h>

#include "comm/communicator.h"
#include "comm/mpi/mpi_communicator.h"
#include "comm/mpi/peer_watch.h"

namespace foretime::comm {

/// Communicator::all_reduce_bfloat16 over MPI: MPI_Ialltoall of the pieces, their sum here, MPI_Iallgather of the sums.
/// Pieces longer than the channel's max_count travel in several calls. The second half begins inside a `poll` or `wait`
/// of this or of a later such work, in the order of the calls on every rank.
std::unique_ptr<Work> start_bfloat16_sum(std::shared_ptr<MpiCommunicator::Channel> channel, const Call& call,
                                         torch::Tensor tensor);

}  // namespace foretime::comm
