#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "configs/settings.h"

namespace foretime::comm {

/// A group of one: every call returns its own input, so that callers have one path.
std::unique_ptr<Communicator> make_single_communicator();

struct CommOptions {
  configs::Backend backend = configs::Backend::auto_;
  std::chrono::duration<double> timeout{600.0};  // of one collective
  bool gpus = true;                              // false: ranks compute on the host, and no GPU is touched
};

/// The communicator that the environment asks for: `auto` is nccl under mpirun where each rank has a GPU of its own,
/// all on one view of the host or each seeing its own alone, mpi under mpirun without, single elsewhere. Initialises
/// MPI where needed; `finish` finalises it. Call once in a process. After a failure or `abort` MPI is not finalised;
/// main returns its exit code as ever, and mpirun ends the other ranks and returns the exit code of the first rank that
/// failed. Before MPI starts, which may use GPUs by itself, the rank's GPU is made current where the launcher tells its
/// place on its host. Throws CommError: for nccl without `gpus`, without a GPU or without NCCL (what is missing and
/// what to do); where srun has started several tasks that MPI does not join, unless the backend is `single`; where MPI
/// finds one rank of several that the launcher has started.
std::unique_ptr<Communicator> make_communicator(const CommOptions& options);

/// For `doctor`: versions and what was found of each backend, one line each.
std::vector<std::string> describe_backends();

/// A group of ranks that are threads of this process: element i belongs to the thread that is rank i. Reductions add in
/// the order of the ranks. For tests, and for programs that embed the trainer. A late rank is named as by the other
/// backends; PeerLostError follows `abort` of any rank. `host_block` (Communicator::host_block, here of hosts that
/// nobody has) must divide `size`.
std::vector<std::unique_ptr<Communicator>> make_thread_group(int size, std::chrono::duration<double> timeout,
                                                             int host_block = 1);

}  // namespace foretime::comm
