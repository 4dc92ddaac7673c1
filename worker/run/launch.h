#pragma once

#include <functional>

#include "comm/communicator.h"
#include "configs/settings.h"

namespace foretime::worker {

/// Describes the device and threads of a rank: trainer.device, and the number of threads (0: cores / ranks on this
/// host).
struct RankResources {
  configs::Device device = configs::Device::auto_;
  int64_t threads = 0;
};

/// Makes the communicator that the settings ask for, without GPUs if the ranks use none, sets this rank's threads and
/// runs `body`. If `body` throws, it notifies the other ranks and rethrows.
void with_communicator(const configs::CommSettings& settings, const RankResources& resources,
                       const std::function<void(comm::Communicator&)>& body);

/// Makes this process's results repeatable bit for bit, for trainer.deterministic: LibTorch uses deterministic
/// algorithms only (an operation without one throws), no cuDNN benchmarking, fixed cuBLAS workspaces and one NCCL
/// algorithm. Equal settings, data, ranks, threads, machine and libraries then give equal bytes. Call it before the
/// first use of a GPU and before the communicator is made: cuBLAS and NCCL read the environment when they start. Throws
/// configs::SettingsError if the environment asks for the opposite.
void make_deterministic();

}  // namespace foretime::worker
