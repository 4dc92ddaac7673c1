#include "comm/mpi/mpi_communicator.h"

#include <algorithm>

namespace foretime::comm {

namespace {

MPI_Datatype mpi_type(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat:
      return MPI_FLOAT;
    case torch::kDouble:
      return MPI_DOUBLE;
    case torch::kLong:
      return MPI_INT64_T;
    case torch::kInt:
      return MPI_INT32_T;
    case torch::kByte:
      return MPI_UINT8_T;
    default:
      return MPI_DATATYPE_NULL;
  }
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return MPI_SUM;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::min:
      return MPI_MIN;
  }
  return MPI_OP_NULL;
}

/// The tensor itself where MPI can work on it, a host copy where it cannot.
torch::Tensor on_host(const torch::Tensor& tensor) {
  const bool half = tensor.scalar_type() == torch::kHalf || tensor.scalar_type() == torch::kBFloat16;
  return tensor.detach().to(torch::kCPU, half ? torch::kFloat : tensor.scalar_type());
}

/// Some MPI requests that make up one collective, and the tensor that they work on.
class Transfer final : public Work {
 public:
  Transfer(std::shared_ptr<MpiChannel> channel, Call call, torch::Tensor target)
      : channel_(std::move(channel)), call_(call), target_(std::move(target)), host_(on_host(target_)) {}
  ~Transfer() override {
    if (!done_) channel_->abandoned.push_back(host_);
  }

  /// Calls `start(address, count, type, request)` for each piece of the tensor.
  template <class Start>
  void start(Start&& start, const char* what) {
    auto* address = static_cast<char*>(host_.data_ptr());
    const auto width = static_cast<int64_t>(host_.element_size());
    done_ = false;
    // MPI keeps the addresses of nothing but the data, so the requests may move.
    for (int64_t at = 0; at < host_.numel(); at += channel_->max_count) {
      const auto count = static_cast<int>(std::min(channel_->max_count, host_.numel() - at));
      requests_.push_back(MPI_REQUEST_NULL);
      channel_->group->check(start(address + at * width, count, mpi_type(host_.scalar_type()), &requests_.back()),
                             what);
    }
  }

  /// One request for the whole tensor, also where it is empty: `start(address, request)`.
  template <class Start>
  void start_whole(Start&& start, const char* what) {
    done_ = false;
    requests_.push_back(MPI_REQUEST_NULL);
    channel_->group->check(start(host_.data_ptr(), &requests_.back()), what);
  }

  bool poll() override {
    if (done_) return true;
    int done = 0;
    channel_->group->check(
        MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE), call_.what);
    done_ = done != 0;
    return done_;
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
  std::vector<MPI_Request> requests_;
  bool done_ = true;
};

/// A view of host bytes that lives as long as they do.
torch::Tensor as_tensor(const void* bytes, size_t size) {
  return torch::from_blob(const_cast<void*>(bytes), {static_cast<int64_t>(size)}, torch::kByte);
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
  lengths[rank()] = static_cast<int64_t>(bytes.size());
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
      all[from] = from == rank() ? bytes : std::string(lengths[from].item<int64_t>(), '\0');
      broadcast_pieces(channel_, call, as_tensor(all[from].data(), all[from].size()), from);
    }
    return all;
  }
  std::vector<int> counts(size()), starts(size());
  int total = 0;
  for (int from = 0; from < size(); ++from) {
    counts[from] = static_cast<int>(lengths[from].item<int64_t>());
    starts[from] = total;
    total += counts[from];
  }
  const auto joined = torch::zeros({total}, torch::kByte);
  Transfer pieces(channel_, call, joined);
  pieces.start_whole(
      [&](void* address, MPI_Request* request) {
        return MPI_Iallgatherv(bytes.data(), counts[rank()], MPI_BYTE, address, counts.data(), starts.data(), MPI_BYTE,
                               channel_->comm, request);
      },
      "MPI_Iallgatherv");
  pieces.wait();
  const auto* text = static_cast<const char*>(joined.data_ptr());
  for (int from = 0; from < size(); ++from) all[from].assign(text + starts[from], counts[from]);
  return all;
}

std::string MpiCommunicator::broadcast_bytes(const std::string& bytes, int root) {
  require_root(rank(), size(), "broadcast_bytes", root);
  const Call call = group().enter("broadcast_bytes");
  auto length = torch::full({1}, static_cast<int64_t>(bytes.size()), torch::kLong);
  broadcast_pieces(channel_, call, length, root);
  std::string result = rank() == root ? bytes : std::string(length.item<int64_t>(), '\0');
  broadcast_pieces(channel_, call, as_tensor(result.data(), result.size()), root);
  return result;
}

void MpiCommunicator::finish() {
  // MPI may still use what a collective that was given up has left; the process is about to end.
  if (channel_->abandoned.empty()) {
    group().check(MPI_Comm_free(&channel_->comm), "MPI_Comm_free");
    for (auto& [place, comm] : channel_->later) group().check(MPI_Comm_free(&comm), "MPI_Comm_free");
  }
  group().finish();
}

bool MpiCommunicator::announce_failure(const std::string& reason) noexcept { return group().announce_failure(reason); }

void MpiCommunicator::abort(const std::string& reason) noexcept { group().abort(reason); }

}  // namespace foretime::comm
