#pragma once

#include <functional>

#include "comm/communicator.h"
#include "configs/settings.h"

namespace foretime::worker {

/// Describes the device and threads of a rank.
struct RankResources {
  configs::Device device = configs::Device::auto_;  // trainer.device
  int64_t threads = 0;                              // number of threads; 0: cores / ranks on this host
};

/// Makes the communicator that the settings ask for (without GPUs for device cpu), sets this rank's threads and runs
/// `body`. If `body` throws on a rank, the error is printed there, the other ranks are ended, and ReportedError with
/// the error's exit code is thrown. Not printed are comm::RemoteError, whose ReportedError follows after 10 s, and
/// errors of a broken pipe, which are rethrown. Throws the errors of make_communicator.
void with_communicator(const configs::CommSettings& settings, const RankResources& resources,
                       const std::function<void(comm::Communicator&)>& body);

/// Makes this process's results repeatable bit for bit, for trainer.deterministic: deterministic algorithms of LibTorch
/// (an operation without one throws), fixed cuBLAS workspaces, and one NCCL algorithm. Equal settings, data, ranks,
/// threads, machine and libraries then give equal bytes. Call it before the first use of a GPU and of the communicator.
/// Throws configs::SettingsError if CUBLAS_WORKSPACE_CONFIG is set to other values than :4096:8 or :16:8.
void make_deterministic();

}  // namespace foretime::worker
