#include "comm/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstring>

#include "comm/mpi/retained_buffers.h"

namespace foretime::comm {

namespace {

MPI_Datatype mpi_type(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat: return MPI_FLOAT;
    case torch::kDouble: return MPI_DOUBLE;
    case torch::kLong: return MPI_INT64_T;
    case torch::kInt: return MPI_INT32_T;
    case torch::kByte: return MPI_UINT8_T;
    default: return MPI_DATATYPE_NULL;
  }
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return MPI_SUM;
    case ReduceOp::max: return MPI_MAX;
    case ReduceOp::min: return MPI_MIN;
  }
  return MPI_OP_NULL;
}

/// The tensor itself where MPI can work on it and its memory is its own, a host copy elsewhere.
torch::Tensor on_host(const torch::Tensor& tensor) {
  const bool half = tensor.scalar_type() == torch::kHalf || tensor.scalar_type() == torch::kBFloat16;
  return tensor.detach().to(torch::kCPU, half ? torch::kFloat : tensor.scalar_type(), /*non_blocking=*/false,
                            /*copy=*/borrowed(tensor));
}

/// Holds the MPI requests of one collective, and the tensor that they work on.
class Transfer final : public Work {
 public:
  Transfer(std::shared_ptr<MpiChannel> channel, Call call, torch::Tensor target)
      : channel_(std::move(channel)), call_(call), target_(std::move(target)), host_(on_host(target_)) {
    buffers_.keep(host_);
  }

  /// Calls `start(address, count, type, request)` for each piece of the tensor.
  template <class Start>
  void start(Start&& start, const char* what) {
    auto* address = static_cast<char*>(host_.data_ptr());
    const int64_t width = host_.element_size();
    for (int64_t at = 0; at < host_.numel(); at += channel_->max_count) {
      const int count = std::min(channel_->max_count, host_.numel() - at);
      channel_->group->check(start(address + at * width, count, mpi_type(host_.scalar_type()), buffers_.new_request()),
                             what);
    }
  }

  /// Makes one request for the whole tensor, even an empty one. buffers() must keep what else `start` passes to MPI.
  template <class Start>
  void start_whole(Start&& start, const char* what) {
    channel_->group->check(start(host_.data_ptr(), buffers_.new_request()), what);
  }
  RetainedBuffers& buffers() { return buffers_; }

  bool poll() override {
    bool done = false;
    channel_->group->check(buffers_.test(done), call_.what);
    return done;
  }

  void wait() override {
    channel_->group->wait(call_, [this] { return poll(); });
    if (!host_.is_alias_of(target_)) {
      const torch::NoGradGuard no_grad;
      target_.copy_(host_);
    }
  }

 private:
  std::shared_ptr<MpiChannel> channel_;
  Call call_;
  torch::Tensor target_, host_;
  RetainedBuffers buffers_;
};

/// `size` bytes that begin with a copy of `bytes`.
torch::Tensor tensor_of(const std::string& bytes, int64_t size) {
  auto copy = torch::empty({size}, torch::kByte);
  if (!bytes.empty()) std::memcpy(copy.data_ptr(), bytes.data(), bytes.size());
  return copy;
}

std::string string_of(const torch::Tensor& bytes) {
  return {static_cast<const char*>(bytes.data_ptr()), bytes.nbytes()};
}

void broadcast_pieces(const std::shared_ptr<MpiChannel>& channel, const Call& call, const torch::Tensor& tensor,
                      int root) {
  Transfer transfer(channel, call, tensor);
  transfer.start([&](void* address, int count, MPI_Datatype type,
                     MPI_Request* request) { return MPI_Ibcast(address, count, type, root, channel->comm, request); },
                 "MPI_Ibcast");
  transfer.wait();
}

}  // namespace

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiGroup> group, int64_t max_count, int host_block)
    : channel_(std::make_shared<MpiChannel>()) {
  auto& later = channel_->later;
  const int block = channel_->host_block = host_block > 0 ? host_block : group->host_block();
  channel_->comm = group->duplicate();
  later[{1, Scope::all}] = group->duplicate();
  if (block > 1 && block < group->size()) {
    for (const size_t number : {0, 3}) later[{number, Scope::block}] = group->split(group->rank() / block);
    for (const size_t number : {1, 2}) later[{number, Scope::across}] = group->split(group->rank() % block);
  }
  channel_->group = std::move(group);
  channel_->max_count = max_count;
}

std::unique_ptr<Work> MpiCommunicator::all_reduce(torch::Tensor tensor, ReduceOp op) {
  require_reducible(rank(), "all_reduce", tensor);
  auto transfer = std::make_unique<Transfer>(channel_, group().enter("all_reduce"), std::move(tensor));
  transfer->start(
      [&](void* address, int count, MPI_Datatype type, MPI_Request* request) {
        return MPI_Iallreduce(MPI_IN_PLACE, address, count, type, mpi_op(op), channel_->comm, request);
      },
      "MPI_Iallreduce");
  return transfer;
}

std::unique_ptr<Work> MpiCommunicator::run(Stages stages) {
  const Call call = group().enter(stages.call);
  return start_stages(channel_, call, std::move(stages));
}

void MpiCommunicator::broadcast(torch::Tensor tensor, int root) {
  require_reducible(rank(), "broadcast", tensor);
  require_root(rank(), size(), "broadcast", root);
  broadcast_pieces(channel_, group().enter("broadcast"), tensor, root);
}

void MpiCommunicator::barrier() { group().meet("barrier"); }

std::vector<std::string> MpiCommunicator::all_gather_bytes(const std::string& bytes) {
  const Call call = group().enter("all_gather_bytes");
  // A sum of vectors with one entry a rank is a gather, in one collective that is already there.
  auto lengths = torch::zeros({size()}, torch::kLong);
  lengths[rank()] = std::ssize(bytes);
  Transfer gather(channel_, call, lengths);
  gather.start(
      [&](void* address, int count, MPI_Datatype type, MPI_Request* request) {
        return MPI_Iallreduce(MPI_IN_PLACE, address, count, type, MPI_SUM, channel_->comm, request);
      },
      "MPI_Iallreduce");
  gather.wait();

  std::vector<std::string> all(size());
  if (lengths.sum().item<int64_t>() > channel_->max_count) {
    for (int from = 0; from < size(); ++from) {
      const auto piece = tensor_of(from == rank() ? bytes : "", lengths[from].item<int64_t>());
      broadcast_pieces(channel_, call, piece, from);
      all[from] = string_of(piece);
    }
    return all;
  }
  std::vector<int> counts(size()), starts(size());
  int total = 0;
  for (int from = 0; from < size(); ++from) {
    counts[from] = lengths[from].item<int64_t>();
    starts[from] = total;
    total += counts[from];
  }
  const auto joined = torch::zeros({total}, torch::kByte);
  auto* text = static_cast<char*>(joined.data_ptr());
  bytes.copy(text + starts[rank()], bytes.size());
  Transfer pieces(channel_, call, joined);
  const int* kept_counts = pieces.buffers().keep(counts);
  const int* kept_starts = pieces.buffers().keep(starts);
  pieces.start_whole(
      [&](void* address, MPI_Request* request) {
        return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, address, kept_counts, kept_starts, MPI_BYTE,
                               channel_->comm, request);
      },
      "MPI_Iallgatherv");
  pieces.wait();
  for (int from = 0; from < size(); ++from) all[from].assign(text + starts[from], counts[from]);
  return all;
}

std::string MpiCommunicator::broadcast_bytes(const std::string& bytes, int root) {
  require_root(rank(), size(), "broadcast_bytes", root);
  const Call call = group().enter("broadcast_bytes");
  const std::string& own = rank() == root ? bytes : std::string();
  auto length = torch::full({1}, std::ssize(own), torch::kLong);
  broadcast_pieces(channel_, call, length, root);
  const auto result = tensor_of(own, length.item<int64_t>());
  broadcast_pieces(channel_, call, result, root);
  return string_of(result);
}

void MpiCommunicator::finish() {
  // MPI may still use what a collective that was given up has left; the process is about to end.
  if (!RetainedBuffers::any_kept()) {
    group().check(MPI_Comm_free(&channel_->comm), "MPI_Comm_free");
    for (auto& [place, comm] : channel_->later) group().check(MPI_Comm_free(&comm), "MPI_Comm_free");
  }
  group().finish();
}

bool MpiCommunicator::announce_failure(const std::string& reason) noexcept { return group().announce_failure(reason); }

void MpiCommunicator::abort(const std::string& reason) noexcept { group().abort(reason); }

}  // namespace foretime::comm
