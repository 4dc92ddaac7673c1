#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "configs/settings.h"

namespace foretime::comm {

struct CommOptions {
  configs::Backend backend = configs::Backend::auto_;
  std::chrono::duration<double> timeout{600.0};  // of one collective
};

/// The communicator that the environment asks for: `auto` is nccl under mpirun with a GPU for each local rank, mpi
/// under mpirun without, single elsewhere. Initialises MPI where needed; `finish` finalises it. Call once in a
/// process. After a failure or `abort` MPI is not finalised; main returns its exit code as ever, and mpirun ends the
/// other ranks and returns the exit code of the first rank that failed. Throws CommError (for nccl without a GPU or
/// without NCCL: what is missing and what to do).
std::unique_ptr<Communicator> make_communicator(const CommOptions& options);

/// For `doctor`: versions and what was found of each backend, one line each.
std::vector<std::string> describe_backends();

}  // namespace foretime::comm
