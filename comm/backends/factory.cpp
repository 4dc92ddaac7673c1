#include "comm/backends/factory.h"

#include <fmt/format.h>

#include "base/check.h"
#include "comm/mpi/launched.h"
#include "comm/mpi/mpi_communicator.h"
#include "comm/nccl/nccl_communicator.h"
#include "comm/torch_stream.h"

namespace foretime::comm {
namespace {

class NoWork final : public Work {
 public:
  void wait() override {}
  bool poll() override { return true; }
};

class SingleCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  std::string name() const override { return "single"; }
  torch::Device device() const override { return torch::kCPU; }

  // Arguments are checked all the same: what fails with two ranks should fail with one.
  std::unique_ptr<Work> all_reduce(torch::Tensor tensor, ReduceOp) override {
    require_reducible(0, "all_reduce", tensor);
    return std::make_unique<NoWork>();
  }
  std::unique_ptr<Work> run(Stages stages) override {
    FORETIME_CHECK(false, "{}: a group of one rank runs no stages", stages.call);
  }
  void broadcast(torch::Tensor tensor, int root) override {
    require_reducible(0, "broadcast", tensor);
    require_root(0, 1, "broadcast", root);
  }
  void barrier() override {}
  std::vector<std::string> all_gather_bytes(const std::string& bytes) override { return {bytes}; }
  std::string broadcast_bytes(const std::string& bytes, int root) override {
    require_root(0, 1, "broadcast_bytes", root);
    return bytes;
  }
  void finish() override {}
  void abort(const std::string&) noexcept override {}
};

std::string mpi_version() {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  // One of the few calls that MPI allows before MPI_Init.
  MPI_Get_library_version(version, &length);
  const std::string text(version, length);
  return text.substr(0, text.find(", ident"));
}

/// An MPI that knows CUDA may make contexts on the current GPU, which is the first one until another is chosen.
void choose_gpu_before_mpi() {
  const int place = launched_local_rank(), gpus = torch_gpus();
  if (place >= 0 && gpus > 0) torch_set_gpu(place % gpus);
}

}  // namespace

std::unique_ptr<Communicator> make_single_communicator() { return std::make_unique<SingleCommunicator>(); }

std::unique_ptr<Communicator> make_communicator(const CommOptions& options) {
  using configs::Backend;
  const Backend backend = options.backend;
  if (options.timeout.count() <= 0)
    throw CommError("time limit of a collective (comm.timeout_seconds): {} s, expected more than 0",
                    options.timeout.count());
  const auto no_ranks = missing_ranks_reason();
  if (backend == Backend::single) {
    if (launched_by_mpi() && no_ranks.empty())
      throw CommError(
          "backend single under mpirun: every rank would train alone; use backend auto, or start one process");
    return make_single_communicator();
  }
  if (backend == Backend::auto_ && !launched_by_mpi()) return make_single_communicator();
  if (!no_ranks.empty())
    throw CommError("{}; or give each task a separate run.directory and comm.backend=single", no_ranks);

  if (backend == Backend::nccl && !options.gpus)
    throw CommError(
        "backend nccl sums on GPUs, and trainer.device is cpu; use backend auto or mpi, or trainer.device auto");
  if (options.gpus && launched_by_mpi()) choose_gpu_before_mpi();
  const auto group = std::make_shared<MpiGroup>(options.timeout);
  if (group->size() == 1 && launched_by_mpi())
    throw CommError(
        "the launcher has started several processes, and MPI has one rank in each: "
        "it belongs to another MPI than the one that this program was built with ({}); foretime doctor names both",
        mpi_version());
  auto by_mpi = std::make_unique<MpiCommunicator>(group);
  if (backend == Backend::nccl) return make_nccl_communicator(std::move(by_mpi));
  if (backend == Backend::mpi || !options.gpus) return by_mpi;
  if (!missing_nccl_reason(*by_mpi).empty()) return by_mpi;
  return make_nccl_communicator(std::move(by_mpi));
}

std::vector<std::string> describe_backends() {
  return {"single: always there",
          fmt::format("mpi: {}{}", mpi_version(), launched_by_mpi() ? ", started by a launcher" : ""),
          fmt::format("nccl: {}", describe_nccl())};
}

}  // namespace foretime::comm
