#pragma once

#include <string>

#include <torch/types.h>

#include "comm/communicator.h"
#include "configs/settings.h"

namespace foretime::worker {

/// Returns the device of this rank: the CPU if `wanted` is cpu, else the communicator's GPU, or GPU local_rank modulo
/// the number of GPUs. Without a GPU returns the CPU for auto, and throws comm::CommError for cuda.
torch::Device choose_device(configs::Device wanted, const comm::Communicator& comm);
/// Returns the device of this rank as above, if LibTorch sees `gpus` GPUs.
torch::Device choose_device(configs::Device wanted, const comm::Communicator& comm, int gpus);

/// Returns a warning if precision tf32 has no effect on a CPU, or GPUs send gradients through the host; "" otherwise.
std::string device_warning(torch::Device device, const comm::Communicator& comm, configs::Precision precision);

}  // namespace foretime::worker
