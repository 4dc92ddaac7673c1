#pragma once

#include <string>

#include <torch/types.h>

#include "comm/communicator.h"
#include "configs/settings.h"

namespace foretime::worker {

/// Returns the device of this rank: the communicator's GPU, or a GPU by the rank's place on its host; the CPU if
/// `wanted` is cpu, or is auto and there is no GPU. Throws comm::CommError if `wanted` is cuda and there is no GPU.
torch::Device choose_device(configs::Device wanted, const comm::Communicator& comm);
/// Returns the device of this rank if LibTorch sees `gpus` GPUs.
torch::Device choose_device(configs::Device wanted, const comm::Communicator& comm, int gpus);

/// Returns a warning about training on `device`: gradients go through the host, or the precision has no effect. Empty
/// if there is none.
std::string device_warning(torch::Device device, const comm::Communicator& comm, configs::Precision precision);

}  // namespace foretime::worker
