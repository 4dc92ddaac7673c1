#pragma once

#include <string>

#include <torch/types.h>

#include "comm/communicator.h"
#include "configs/settings.h"

namespace foretime::worker {

/// What this rank computes on: the communicator's GPU, or one by its place among the ranks of its host; the CPU where
/// `wanted` says so, or is auto and there is no GPU. Throws comm::CommError where `wanted` is cuda and there is none.
torch::Device choose_device(configs::Device wanted, const comm::Communicator& comm);
/// Of `gpus` that LibTorch sees.
torch::Device choose_device(configs::Device wanted, const comm::Communicator& comm, int gpus);

/// What people should know of a training on `device`: that gradients go through the host, or that a precision means
/// nothing there. Empty where there is nothing to say.
std::string device_warning(torch::Device device, const comm::Communicator& comm, configs::Precision precision);

}  // namespace foretime::worker
