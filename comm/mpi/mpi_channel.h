#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <mpi.h>
#include <torch/torch.h>

#include "comm/mpi/mpi_communicator.h"
#include "comm/mpi/mpi_group.h"

namespace foretime::comm {

class Bfloat16Exchange;

struct MpiCommunicator::Channel {
  std::shared_ptr<MpiGroup> group;
  MPI_Comm comm = MPI_COMM_NULL;
  // Second halves of all_reduce_bfloat16 begin whenever first halves end, so they need an order of their own.
  MPI_Comm gather_comm = MPI_COMM_NULL;
  std::weak_ptr<Bfloat16Exchange> last_exchange;
  int64_t max_count = 0;
  // Tensors of collectives that were given up: MPI may still write to them.
  std::vector<torch::Tensor> abandoned;

  ~Channel() {
    if (group->failed() || !abandoned.empty()) return;
    MPI_Comm_free(&comm);
    MPI_Comm_free(&gather_comm);
  }
};

}  // namespace foretime::comm
