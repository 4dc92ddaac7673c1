#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi/mpi_communicator.h"

namespace foretime::comm {

/// Makes a communicator that uses NCCL for tensors on the GPU, and `host` for tensors on the host and for bytes. Rank r
/// uses GPU `local_rank % visible GPUs`, and makes it current. Collective. If one rank cannot (no GPU, no NCCL in this
/// build, no CUDA in LibTorch, a GPU shared with another rank), all ranks throw CommError with that rank's reason and a
/// remedy.
std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<MpiCommunicator> host);

/// Returns the reason why `make_nccl_communicator` would throw on some rank for lack of a GPU; "" if there is none.
/// Collective.
std::string missing_nccl_reason(MpiCommunicator& host);

/// Returns the number of GPUs that a communicator of this build can use; 0 without a driver or without NCCL.
int visible_gpus();

/// Returns the PCI addresses of the visible GPUs, in the order of CUDA's numbers. They identify a GPU within a host,
/// whatever number each process gives it.
std::vector<std::string> gpu_addresses();

/// Returns one line with NCCL's version and the GPUs.
std::string describe_nccl();

}  // namespace foretime::comm
