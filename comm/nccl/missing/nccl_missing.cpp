#include "comm/nccl/nccl_communicator.h"

namespace foretime::comm {

constexpr const char* kMissing =
    "backend nccl: this build has no NCCL; install NCCL and its header, configure again (NCCL_ROOT names its folder), "
    "or use backend mpi";

std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<MpiCommunicator>) { throw CommError(kMissing); }

std::string missing_nccl_reason(MpiCommunicator&) { return kMissing; }

int visible_gpus() { return 0; }

std::vector<std::string> gpu_addresses() { return {}; }

std::string describe_nccl() { return "not in this build (nccl.h or libnccl was not found, or FORETIME_NCCL is OFF)"; }

}  // namespace foretime::comm
