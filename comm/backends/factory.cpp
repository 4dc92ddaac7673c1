#include "comm/backends/factory.h"

#include <fmt/format.h>

#include "comm/mpi/launched.h"
#include "comm/mpi/mpi_communicator.h"
#include "comm/nccl/nccl_communicator.h"
#include "comm/single.h"
#include "comm/torch_stream.h"

namespace foretime::comm {

std::unique_ptr<Communicator> make_communicator(const CommOptions& options) {
  using configs::Backend;
  const Backend backend = options.backend;
  if (options.timeout.count() <= 0) {
    throw CommError(fmt::format("timeout of a collective: {} s, expected more than 0", options.timeout.count()));
  }
  if (backend == Backend::single) {
    if (launched_by_mpi()) {
      throw CommError(
          "backend single under mpirun: every rank would train alone; use backend auto, or start one process");
    }
    return make_single_communicator();
  }
  if (backend == Backend::auto_ && !launched_by_mpi()) return make_single_communicator();

  const auto group = std::make_shared<MpiGroup>(options.timeout);
  auto by_mpi = std::make_unique<MpiCommunicator>(group);
  if (backend == Backend::nccl) return make_nccl_communicator(std::move(by_mpi));
  if (backend == Backend::mpi) return by_mpi;
  // All ranks must choose the same, so the one that sees least decides.
  const auto able = torch::full({1}, torch_has_cuda() && visible_gpus() >= group->local_size() ? 1 : 0, torch::kInt);
  by_mpi->all_reduce(able, ReduceOp::min)->wait();
  if (able.item<int>() == 0) return by_mpi;
  return make_nccl_communicator(std::move(by_mpi));
}

std::vector<std::string> describe_backends() {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  // One of the few calls that MPI allows before MPI_Init.
  MPI_Get_library_version(version, &length);
  std::string mpi(version, length);
  mpi = mpi.substr(0, mpi.find(", ident"));
  return {"single: always there", fmt::format("mpi: {}{}", mpi, launched_by_mpi() ? ", started by a launcher" : ""),
          fmt::format("nccl: {}", describe_nccl())};
}

}  // namespace foretime::comm
