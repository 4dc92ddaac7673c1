#pragma once

#include <functional>

#include "comm/communicator.h"
#include "configs/settings.h"

namespace foretime::worker {

/// What a rank computes with: trainer.device, and its threads (0: cores / ranks on this host).
struct RankResources {
  configs::Device device = configs::Device::auto_;
  int64_t threads = 0;
};

/// Builds the communicator that the settings ask for, without GPUs where the ranks use none, sets this rank's threads,
/// runs `body` and, where it throws, tells the peers before the exception goes on.
void with_communicator(const configs::CommSettings& settings, const RankResources& resources,
                       const std::function<void(comm::Communicator&)>& body);

/// Makes this process repeat itself bit by bit, for trainer.deterministic: LibTorch's deterministic algorithms only (an
/// operation that has none throws), no cuDNN benchmarking, fixed cuBLAS workspaces, one NCCL algorithm. Same settings,
/// data, ranks, threads, machine and libraries then give the same bytes. On a CPU all of it holds anyway; there it
/// makes sure. Call before the first use of a GPU and before the communicator is made: cuBLAS and NCCL read the
/// environment when they start. Throws configs::SettingsError where the environment asks for the opposite.
void make_deterministic();

}  // namespace foretime::worker
