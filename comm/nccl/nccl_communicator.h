#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi/mpi_communicator.h"

namespace foretime::comm {

/// Makes a communicator that uses NCCL for tensors on the GPU, and `host` for tensors on the host and for bytes. Each
/// rank uses GPU number `local_rank % visible GPUs`, which becomes current. All ranks must call it. If one of them
/// lacks its own GPU, NCCL or LibTorch's CUDA, all throw CommError with that rank's reason and a remedy.
std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<MpiCommunicator> host);

/// Returns the reason for which make_nccl_communicator would throw; "": none. All ranks must call it, and get the same.
std::string missing_nccl_reason(MpiCommunicator& host);

/// Returns the number of GPUs that CUDA shows to this process; 0 without a driver or in a build without NCCL.
int visible_gpus();

/// Returns the PCI addresses of the visible GPUs, which identify a GPU within its host, in the order of CUDA's numbers.
/// A GPU whose address cannot be read gets CUDA's error text instead.
std::vector<std::string> gpu_addresses();

/// Returns one line with NCCL's version and the number of GPUs, or the reason why this build has no NCCL.
std::string describe_nccl();

}  // namespace foretime::comm
