#include "comm/nccl_communicator.h"

#include <algorithm>
#include <exception>
#include <thread>

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <nccl.h>

#include "comm/mpi_communicator.h"
#include "comm/tensor_check.h"
#include "comm/torch_stream.h"

namespace foretime::comm {

namespace {

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 14, 0), "non-blocking communicators came with NCCL 2.14");

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kShutdownLimit{30.0};

std::string cuda_text(const char* what, cudaError_t code) {
  return fmt::format("{}: {}", what, cudaGetErrorString(code));
}

/// NCCL's communicator and stream on one GPU. Non-blocking: a call may return before its work has reached the stream,
/// and no other call may follow until `idle`. Shared with every Work.
struct Gpu {
  Gpu(std::shared_ptr<MpiGroup> g, int i)
      : group(std::move(g)), index(i), exceptions_at_start(std::uncaught_exceptions()) {}
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  void cuda(cudaError_t code, const char* what) {
    if (code != cudaSuccess) fail(cuda_text(what, code));
  }
  void nccl(ncclResult_t code, const char* what) {
    if (code != ncclSuccess && code != ncclInProgress) {
      fail(fmt::format("{}: {} ({})", what, ncclGetErrorString(code), ncclGetLastError(comm)));
    }
  }
  /// True when the last call is through; throws the errors that NCCL has met since, here or on a peer.
  bool idle(const char* what) {
    ncclResult_t state = ncclSuccess;
    nccl(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError");
    nccl(state, what);
    return state == ncclSuccess;
  }
  [[noreturn]] void fail(const std::string& what) {
    group->mark_failed(what);
    stop();
    throw CommError(fmt::format("rank {}: {}", group->rank(), what));
  }
  /// Ends kernels that wait for a peer; without it the process could not leave the GPU.
  void stop() noexcept {
    if (comm != nullptr) ncclCommAbort(comm);
    comm = nullptr;
  }
  /// MpiGroup::wait, and an end of NCCL's work if it throws.
  void wait(const Call& call, const std::function<bool()>& finished) {
    try {
      group->wait(call, finished);
    } catch (...) {
      stop();
      throw;
    }
  }

  std::shared_ptr<MpiGroup> group;
  const int index;
  const int exceptions_at_start;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<torch::Tensor> abandoned;  // of work that nobody waited for: the GPU may still use them
};

template <class Finished>
bool comes_true(Finished&& finished) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(kShutdownLimit);
  while (!finished()) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

Gpu::~Gpu() {
  cudaSetDevice(index);
  const bool clean = !group->failed() && std::uncaught_exceptions() <= exceptions_at_start;
  if (clean && comm != nullptr) {
    // Drained, finalised, destroyed, each with a time limit; what is stuck is aborted below.
    const auto settled = [&] {
      ncclResult_t state = ncclSuccess;
      return ncclCommGetAsyncError(comm, &state) != ncclSuccess || state != ncclInProgress;
    };
    const bool drained = comes_true([&] { return cudaStreamQuery(stream) != cudaErrorNotReady; });
    if (drained) {
      const auto code = ncclCommFinalize(comm);
      ncclResult_t state = ncclSuccess;
      if ((code == ncclSuccess || code == ncclInProgress) && comes_true(settled) &&
          ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclSuccess) {
        ncclCommDestroy(comm);
        comm = nullptr;
      }
    }
  }
  stop();
  if (stream != nullptr) cudaStreamDestroy(stream);
}

/// A CUDA event without timing.
class Event {
 public:
  explicit Event(Gpu& gpu) { gpu.cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

ncclDataType_t nccl_type(torch::ScalarType type) {
  switch (type) {
    case torch::kHalf:
      return ncclFloat16;
    case torch::kBFloat16:
      return ncclBfloat16;
    case torch::kDouble:
      return ncclFloat64;
    case torch::kLong:
      return ncclInt64;
    case torch::kInt:
      return ncclInt32;
    case torch::kByte:
      return ncclUint8;
    default:
      return ncclFloat32;
  }
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::min:
      return ncclMin;
    default:
      return ncclSum;
  }
}

/// One collective on NCCL's stream, after what the compute stream held when it began.
class StreamWork final : public Work {
 public:
  template <class Enqueue>
  StreamWork(std::shared_ptr<Gpu> gpu, Call call, torch::Tensor tensor, Enqueue&& enqueue)
      : gpu_(std::move(gpu)), call_(call), tensor_(std::move(tensor)), inputs_ready_(*gpu_), done_(*gpu_) {
    gpu_->cuda(cudaSetDevice(gpu_->index), "cudaSetDevice");
    const auto compute = static_cast<cudaStream_t>(torch_current_stream(gpu_->index));
    gpu_->cuda(cudaEventRecord(inputs_ready_.get(), compute), "cudaEventRecord");
    gpu_->cuda(cudaStreamWaitEvent(gpu_->stream, inputs_ready_.get(), 0), "cudaStreamWaitEvent");
    gpu_->nccl(enqueue(gpu_->comm, gpu_->stream), call_.what);
    // The event must come after the kernel, so the kernel must be in the stream first.
    gpu_->wait(call_, [&] { return gpu_->idle(call_.what); });
    gpu_->cuda(cudaEventRecord(done_.get(), gpu_->stream), "cudaEventRecord");
  }
  ~StreamWork() override {
    if (!waited_) gpu_->abandoned.push_back(tensor_);
  }

  bool poll() override {
    if (waited_) return true;
    if (gpu_->comm == nullptr)
      throw CommError(fmt::format("rank {}: {} was aborted", gpu_->group->rank(), call_.text()));
    gpu_->idle(call_.what);
    const auto state = cudaEventQuery(done_.get());
    if (state == cudaErrorNotReady) return false;
    gpu_->cuda(state, call_.what);
    return true;
  }

  /// Blocks the host, so that a stuck peer is noticed here and not in some later kernel; the compute stream needs no
  /// order then.
  void wait() override {
    if (waited_) return;
    gpu_->wait(call_, [this] { return poll(); });
    waited_ = true;
  }

 private:
  std::shared_ptr<Gpu> gpu_;
  Call call_;
  torch::Tensor tensor_;
  Event inputs_ready_, done_;
  bool waited_ = false;
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
  torch::Device device() const override { return {torch::kCUDA, static_cast<c10::DeviceIndex>(gpu_->index)}; }

  std::unique_ptr<Work> all_reduce(torch::Tensor tensor, ReduceOp op) override {
    require_reducible(rank(), "all_reduce", tensor);
    if (tensor.device().is_cpu()) return host_->all_reduce(std::move(tensor), op);
    require_here("all_reduce", tensor);
    return std::make_unique<StreamWork>(
        gpu_, gpu_->group->enter("all_reduce"), tensor, [&](ncclComm_t comm, cudaStream_t stream) {
          return ncclAllReduce(tensor.data_ptr(), tensor.data_ptr(), tensor.numel(), nccl_type(tensor.scalar_type()),
                               nccl_op(op), comm, stream);
        });
  }

  void broadcast(torch::Tensor tensor, int root) override {
    require_reducible(rank(), "broadcast", tensor);
    require_root(rank(), size(), "broadcast", root);
    if (tensor.device().is_cpu()) return host_->broadcast(std::move(tensor), root);
    require_here("broadcast", tensor);
    StreamWork(gpu_, gpu_->group->enter("broadcast"), tensor, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclBroadcast(tensor.data_ptr(), tensor.data_ptr(), tensor.numel(), nccl_type(tensor.scalar_type()), root,
                           comm, stream);
    }).wait();
  }

  void barrier() override { host_->barrier(); }
  std::vector<std::string> all_gather_bytes(const std::string& bytes) override {
    return host_->all_gather_bytes(bytes);
  }
  std::string broadcast_bytes(const std::string& bytes, int root) override {
    return host_->broadcast_bytes(bytes, root);
  }
  void abort(const std::string& reason) noexcept override {
    host_->abort(reason);
    gpu_->stop();
  }

 private:
  void require_here(const char* call, const torch::Tensor& tensor) const {
    if (tensor.device() == device()) return;
    throw CommError(fmt::format("rank {}: {}: the tensor is on {}, expected {} or the host", rank(), call,
                                tensor.device().str(), device().str()));
  }

  std::unique_ptr<MpiCommunicator> host_;
  std::shared_ptr<Gpu> gpu_;
};

constexpr const char* kAdvice = "use backend mpi, or start the run where every rank has a GPU and its driver";

/// Why this rank cannot use a GPU; empty where it can. Sets `index` and `place`, which tells GPUs of different hosts
/// apart.
std::string choose_gpu(const MpiGroup& group, int& index, std::string& place) {
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
  place = fmt::format("{} of host {}", bus, std::string(host, length));
  return "";
}

/// All ranks throw if one has a problem, so that none waits for it.
void agree(Communicator& host, const std::string& problem, const std::string& place) {
  const auto problems = host.all_gather_bytes(problem);
  const auto places = host.all_gather_bytes(place);
  for (int rank = 0; rank < host.size(); ++rank) {
    if (!problems[rank].empty()) throw CommError(fmt::format("rank {}: backend nccl: {}", rank, problems[rank]));
  }
  for (int rank = 0; rank < host.size(); ++rank) {
    const auto other = std::find(places.begin(), places.begin() + rank, places[rank]) - places.begin();
    if (other == rank) continue;
    throw CommError(
        fmt::format("backend nccl: ranks {} and {} would share GPU {}, which NCCL refuses; start one rank for each GPU",
                    other, rank, places[rank]));
  }
}

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(std::shared_ptr<MpiGroup> group) {
  auto host = std::make_unique<MpiCommunicator>(group);
  int index = 0;
  std::string place;
  const auto problem = choose_gpu(*group, index, place);
  agree(*host, problem, place);

  torch_set_gpu(index);
  auto gpu = std::make_shared<Gpu>(group, index);
  gpu->cuda(cudaSetDevice(index), "cudaSetDevice");
  // Not ordered against the default stream, which LibTorch computes on.
  gpu->cuda(cudaStreamCreateWithFlags(&gpu->stream, cudaStreamNonBlocking), "cudaStreamCreate");

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
