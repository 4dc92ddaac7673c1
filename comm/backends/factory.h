#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "configs/settings.h"

namespace foretime::comm {

/// Returns a group of one rank, whose calls return their own input, so that callers have one code path.
std::unique_ptr<Communicator> make_single_communicator();

struct CommOptions {
  configs::Backend backend = configs::Backend::auto_;
  std::chrono::duration<double> timeout{600.0};  // time limit of one collective
  bool gpus = true;                              // false: ranks compute on the host, and no GPU is used
};

/// Makes the communicator that the environment asks for. `auto` is nccl under mpirun if each rank has its own GPU (all
/// ranks see the GPUs of the host, or each rank only its own), else mpi under mpirun, else single. Initialises MPI if
/// necessary; `finish` finalises it. Must be called once in a process. After a failure or `abort` MPI is not finalised;
/// main returns its exit code as usual, and mpirun ends the other ranks and returns the exit code of the first rank
/// that failed. If the launcher gives the rank's place on its host, the rank's GPU is made current before MPI starts,
/// because MPI may use GPUs itself. Throws CommError with the cause and a remedy: for nccl without `gpus`, without a
/// GPU or without NCCL; if srun has started several tasks that MPI does not join, unless the backend is `single`; if
/// MPI finds one rank although the launcher has started several.
std::unique_ptr<Communicator> make_communicator(const CommOptions& options);

/// Returns versions and properties of each backend, one line each, for `doctor`.
std::vector<std::string> describe_backends();

}  // namespace foretime::comm
