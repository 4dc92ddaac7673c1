#include "comm/nccl/nccl_communicator.h"

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <nccl.h>

#include "base/check.h"
#include "base/process.h"
#include "comm/gpu/gpu_place.h"
#include "comm/nccl/nccl_gpu.h"
#include "comm/torch_stream.h"

namespace foretime::comm {

namespace {

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 14, 0), "non-blocking communicators came with NCCL 2.14");

ncclDataType_t nccl_type(torch::ScalarType type) {
  switch (type) {
    case torch::kHalf: return ncclFloat16;
    case torch::kBFloat16: return ncclBfloat16;
    case torch::kDouble: return ncclFloat64;
    case torch::kLong: return ncclInt64;
    case torch::kInt: return ncclInt32;
    case torch::kByte: return ncclUint8;
    case torch::kFloat: return ncclFloat32;
    default: FORETIME_CHECK(false, "NCCL has no type for {}", c10::toString(type));
  }
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return ncclSum;
    case ReduceOp::max: return ncclMax;
    case ReduceOp::min: return ncclMin;
  }
  FORETIME_CHECK(false, "an unknown reduction");
}

/// A collective after what the compute stream held when it began. `enqueue(gpu, call)` puts it on NCCL's stream.
class StreamWork final : public Work {
 public:
  template <class Enqueue>
  StreamWork(std::shared_ptr<Gpu> gpu, Call call, std::vector<torch::Tensor> tensors, Enqueue&& enqueue)
      : gpu_(std::move(gpu)), work_(std::make_shared<Enqueued>(*gpu_, call, std::move(tensors))) {
    gpu_->make_current();
    const auto compute = static_cast<cudaStream_t>(torch_current_stream(gpu_->index));
    gpu_->cuda(cudaEventRecord(work_->inputs_ready.get(), compute), "cudaEventRecord");
    gpu_->cuda(cudaStreamWaitEvent(gpu_->stream, work_->inputs_ready.get(), 0), "cudaStreamWaitEvent");
    // The event must come after the kernels, so they must be in the stream first.
    enqueue(*gpu_, work_->call);
    gpu_->cuda(cudaEventRecord(work_->done.get(), gpu_->stream), "cudaEventRecord");
  }
  ~StreamWork() override {
    if (!work_->waited && !work_->ordered)
      gpu_->abandoned.insert(gpu_->abandoned.end(), work_->tensors.begin(), work_->tensors.end());
  }

  bool poll() override { return gpu_->poll(*work_); }
  void wait() override { gpu_->wait(*work_); }
  void order() override { gpu_->order(work_); }

 private:
  std::shared_ptr<Gpu> gpu_;
  std::shared_ptr<Enqueued> work_;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::unique_ptr<MpiCommunicator> host, std::shared_ptr<Gpu> gpu)
      : host_(std::move(host)), gpu_(std::move(gpu)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  int local_rank() const override { return host_->local_rank(); }
  int local_size() const override { return host_->local_size(); }
  std::string name() const override { return "nccl"; }
  torch::Device device() const override { return torch_gpu(gpu_->index); }

  std::unique_ptr<Work> all_reduce(torch::Tensor tensor, ReduceOp op) override {
    require_reducible(rank(), "all_reduce", tensor);
    if (tensor.device().is_cpu()) return host_->all_reduce(std::move(tensor), op);
    require_here("all_reduce", tensor);
    return std::make_unique<StreamWork>(
        gpu_, gpu_->group->enter("all_reduce"), std::vector{tensor}, [&](Gpu& gpu, const Call& call) {
          gpu.enqueue(call, ncclAllReduce(tensor.data_ptr(), tensor.data_ptr(), tensor.numel(),
                                          nccl_type(tensor.scalar_type()), nccl_op(op), gpu.comm, gpu.stream));
        });
  }

  /// All stages follow each other on NCCL's stream; the host waits for none of them.
  std::unique_ptr<Work> run(Stages stages) override {
    if (stages.tensors.front().device().is_cpu()) return host_->run(std::move(stages));
    for (const auto& tensor : stages.tensors) require_here(stages.call, tensor);
    return std::make_unique<StreamWork>(gpu_, gpu_->group->enter(stages.call), stages.tensors,
                                        [&](Gpu& gpu, const Call& call) {
                                          for (auto& stage : stages.list)
                                            std::visit([&](auto& each) { enqueue(gpu, call, each); }, stage);
                                        });
  }

  void broadcast(torch::Tensor tensor, int root) override {
    require_reducible(rank(), "broadcast", tensor);
    require_root(rank(), size(), "broadcast", root);
    if (tensor.device().is_cpu()) return host_->broadcast(std::move(tensor), root);
    require_here("broadcast", tensor);
    StreamWork(gpu_, gpu_->group->enter("broadcast"), std::vector{tensor}, [&](Gpu& gpu, const Call& call) {
      gpu.enqueue(call, ncclBroadcast(tensor.data_ptr(), tensor.data_ptr(), tensor.numel(),
                                      nccl_type(tensor.scalar_type()), root, gpu.comm, gpu.stream));
    }).wait();
  }

  void barrier() override { host_->barrier(); }
  void keep_alive() override { host_->keep_alive(); }
  void settle() override { gpu_->settle(); }
  std::vector<std::string> all_gather_bytes(const std::string& bytes) override {
    return host_->all_gather_bytes(bytes);
  }
  std::string broadcast_bytes(const std::string& bytes, int root) override {
    return host_->broadcast_bytes(bytes, root);
  }
  void finish() override {
    gpu_->finish();
    host_->finish();
  }
  bool announce_failure(const std::string& reason) noexcept override { return host_->announce_failure(reason); }
  void abort(const std::string& reason) noexcept override {
    host_->abort(reason);
    gpu_->stop();
  }

 private:
  void enqueue(Gpu& gpu, const Call& call, const AllToAll& exchange) {
    const size_t piece = exchange.send.size(1);
    const auto type = nccl_type(exchange.send.scalar_type());
    gpu.nccl(ncclGroupStart(), "ncclGroupStart");
    for (int peer = 0; peer < size(); ++peer) {
      gpu.nccl(ncclSend(exchange.send[peer].data_ptr(), piece, type, peer, gpu.comm, gpu.stream), "ncclSend");
      gpu.nccl(ncclRecv(exchange.receive[peer].data_ptr(), piece, type, peer, gpu.comm, gpu.stream), "ncclRecv");
    }
    gpu.enqueue(call, ncclGroupEnd());
  }
  void enqueue(Gpu& gpu, const Call& call, const AllGather& gather) {
    const auto own = gather.pieces[rank()];
    gpu.enqueue(call, ncclAllGather(own.data_ptr(), gather.pieces.data_ptr(), own.numel(), nccl_type(own.scalar_type()),
                                    gpu.comm, gpu.stream));
  }
  void enqueue(Gpu& gpu, const Call&, const Compute& compute) { torch_on_stream(gpu.stream, gpu.index, compute); }

  void require_here(const char* call, const torch::Tensor& tensor) const {
    FORETIME_CHECK(tensor.device() == device(), "rank {}: {}: the tensor is on {}", rank(), call,
                   tensor.device().str());
  }

  std::unique_ptr<MpiCommunicator> host_;
  std::shared_ptr<Gpu> gpu_;
};

constexpr const char* kAdvice = "use backend mpi, or start the run where every rank has a GPU and its driver";

/// Returns the reason why this rank cannot use a GPU; "" if it can, and then sets `index` and `place`.
std::string choose_gpu(const MpiGroup& group, int& index, GpuPlace& place) {
  int count = 0;
  const auto found = cudaGetDeviceCount(&count);
  if (found != cudaSuccess) return fmt::format("no GPU ({}); {}", cuda_text("cudaGetDeviceCount", found), kAdvice);
  if (count == 0) return fmt::format("no GPU is visible (is CUDA_VISIBLE_DEVICES empty?); {}", kAdvice);
  if (!torch_has_cuda()) return "this LibTorch has no CUDA; build against a CUDA LibTorch 2.x, or use backend mpi";
  index = group.local_rank() % count;
  char bus[32] = "", host[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  const auto named = cudaDeviceGetPCIBusId(bus, sizeof bus, index);
  if (named != cudaSuccess) return cuda_text("cudaDeviceGetPCIBusId", named);
  MPI_Get_processor_name(host, &length);
  place = {bus, std::string(host, length), boot_id()};
  return "";
}

/// Returns the first problem of all ranks, so that none waits for another; "" if there is none.
std::string problem_of_all(MpiCommunicator& host, int& index) {
  GpuPlace place;
  const auto problems = host.all_gather_bytes(choose_gpu(*host.shared_group(), index, place));
  const auto gathered = host.all_gather_bytes(to_bytes(place));
  for (int rank = 0; rank < host.size(); ++rank)
    if (!problems[rank].empty()) return fmt::format("rank {}: backend nccl: {}", rank, problems[rank]);
  std::vector<GpuPlace> places;
  for (const auto& bytes : gathered) places.push_back(gpu_place_of(bytes));
  const auto shared = shared_gpu(places);
  return shared.empty() ? "" : "backend nccl: " + shared;
}

}  // namespace

std::string missing_nccl_reason(MpiCommunicator& host) {
  int index = 0;
  return problem_of_all(host, index);
}

std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<MpiCommunicator> host) {
  const auto group = host->shared_group();
  int index = 0;
  if (const auto problem = problem_of_all(*host, index); !problem.empty()) throw CommError(problem);

  torch_set_gpu(index);
  auto gpu = std::make_shared<Gpu>(group, index);
  gpu->cuda(cudaSetDevice(index), "cudaSetDevice");
  // Not ordered against the default stream of LibTorch, and preferred to it: other ranks wait for the sums.
  int least = 0, greatest = 0;
  gpu->cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  gpu->cuda(cudaStreamCreateWithPriority(&gpu->stream, cudaStreamNonBlocking, greatest),
            "cudaStreamCreateWithPriority");

  ncclUniqueId id{};
  if (group->rank() == 0) gpu->nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  const auto bytes = host->broadcast_bytes(std::string(id.internal, sizeof id.internal), 0);
  bytes.copy(id.internal, sizeof id.internal);

  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const Call call = group->enter("ncclCommInitRank");
  gpu->nccl(ncclCommInitRankConfig(&gpu->comm, group->size(), id, group->rank(), &config), call.what);
  gpu->wait(call, [&] { return gpu->idle(call.what); });
  return std::make_unique<NcclCommunicator>(std::move(host), std::move(gpu));
}

int visible_gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::vector<std::string> gpu_addresses() {
  std::vector<std::string> found(visible_gpus());
  for (size_t gpu = 0; gpu < found.size(); ++gpu) {
    char bus[32] = "";
    const auto named = cudaDeviceGetPCIBusId(bus, sizeof bus, gpu);
    found[gpu] = named == cudaSuccess ? bus : cuda_text("cudaDeviceGetPCIBusId", named);
  }
  return found;
}

std::string describe_nccl() {
  int version = 0, count = 0;
  ncclGetVersion(&version);
  const auto found = cudaGetDeviceCount(&count);
  const auto gpus = found != cudaSuccess ? fmt::format("no GPU ({})", cudaGetErrorString(found))
                    : torch_has_cuda()   ? fmt::format("{} GPUs", count)
                                         : fmt::format("{} GPUs, but this LibTorch has no CUDA", count);
  return fmt::format("NCCL {}.{}.{}, {}", version / 10000, version / 100 % 100, version % 100, gpus);
}

}  // namespace foretime::comm
