#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi/mpi_communicator.h"

namespace foretime::comm {

/// NCCL for tensors on the GPU, `host` for those on the host and for bytes. Rank r uses GPU `local_rank % visible
/// GPUs`, and makes it current. Collective; where one rank cannot (no GPU, no NCCL in this build, no CUDA in LibTorch,
/// a GPU shared with another rank), all ranks throw CommError with that rank's reason and what to do.
std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<MpiCommunicator> host);

/// Why `make_nccl_communicator` would throw on some rank; empty where it would not for want of a GPU. Collective.
std::string why_no_nccl(MpiCommunicator& host);

/// GPUs that a communicator of this build could use; 0 without a driver or without NCCL.
int visible_gpus();

/// Their PCI addresses, in the order of CUDA's numbers, which tell two GPUs of a host apart whatever each process calls
/// them.
std::vector<std::string> gpu_addresses();

/// One line: NCCL's version and what was found of GPUs.
std::string describe_nccl();

}  // namespace foretime::comm
