#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <mpi.h>
#include <torch/types.h>

#include "comm/mpi/mpi_communicator.h"
#include "comm/mpi/mpi_group.h"

namespace foretime::comm {

class MpiStages;

/// What the collectives of one MpiCommunicator share. Its destructor frees nothing of MPI; `MpiCommunicator::finish`
/// does.
struct MpiCommunicator::Channel {
  std::shared_ptr<MpiGroup> group;
  MPI_Comm comm = MPI_COMM_NULL;
  // Later transfers of an algorithm begin whenever earlier ones end, so they need an order of their own.
  MPI_Comm later_comm = MPI_COMM_NULL;
  std::weak_ptr<MpiStages> last_stages;
  int64_t max_count = 0;
  // Tensors of collectives that were given up: MPI may still write to them.
  std::vector<torch::Tensor> abandoned;
};

}  // namespace foretime::comm
