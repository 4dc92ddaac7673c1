#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "configs/settings.h"

namespace foretime::comm {

/// Returns a group of one rank on the CPU, so that callers have one code path: collectives check their arguments and
/// return their own input. Communicator::run throws BrokenInvariant.
std::unique_ptr<Communicator> make_single_communicator();

struct CommOptions {
  configs::Backend backend = configs::Backend::auto_;  // comm.backend
  std::chrono::duration<double> timeout{600.0};        // time limit of one collective, above 0: comm.timeout_seconds
  bool gpus = true;                                    // false: ranks compute on the host, and no GPU is used
};

/// Makes the communicator of the backend that `options` name. `auto` is nccl under mpirun if `gpus` is true and each
/// rank has its own GPU (all ranks see the GPUs of the host, or each rank only its own), else mpi under mpirun, else
/// single. Must be called once in a process. Initialises MPI if necessary; Communicator::finish finalises MPI, but not
/// after a failure or `abort`: main then returns its exit code as usual, and mpirun ends the other ranks and returns
/// the exit code of the first rank that failed. With `gpus`, and if the launcher gives the rank's place on its host,
/// the rank's GPU is made current before MPI starts. Throws CommError with the cause and a remedy: for a time limit not
/// above 0; for nccl without `gpus`, GPU or NCCL; for single under mpirun; if srun has started tasks that MPI does not
/// join, unless the backend is single; if MPI finds one rank although the launcher has started several.
std::unique_ptr<Communicator> make_communicator(const CommOptions& options);

/// Returns one line for each backend with its version and properties, for `foretime doctor`.
std::vector<std::string> describe_backends();

}  // namespace foretime::comm
