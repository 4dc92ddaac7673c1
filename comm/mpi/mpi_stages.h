#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/mpi/mpi_communicator.h"
#include "comm/mpi/peer_watch.h"

namespace foretime::comm {

/// Communicator::run over MPI: MPI_Ialltoall and MPI_Iallgather. Pieces longer than the channel's max_count travel in
/// several calls. Stages after the first begin inside a `poll` or `wait` of this or of a later such work, in the order
/// of the calls on every rank.
std::unique_ptr<Work> start_stages(std::shared_ptr<MpiCommunicator::Channel> channel, const Call& call, Stages stages);

}  // namespace foretime::comm
