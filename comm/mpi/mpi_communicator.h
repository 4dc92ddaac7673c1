#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

#include "comm/communicator.h"
#include "comm/mpi/mpi_group.h"

namespace foretime::comm {

class MpiStages;

/// Holds what the collectives of one MpiCommunicator share. MpiCommunicator::finish frees the MPI objects.
struct MpiChannel {
  std::shared_ptr<MpiGroup> group;
  MPI_Comm comm = MPI_COMM_NULL;  // used for all collectives and the first transfer of stages
  // Communicators of later transfers of stages, by number (from 0) and scope; each needs a separate order of calls.
  std::map<std::pair<size_t, Scope>, MPI_Comm> later;
  int host_block = 1;                    // see Communicator::host_block
  std::weak_ptr<MpiStages> last_stages;  // stages that began last
  int64_t max_count = 0;                 // longest piece of one MPI call, in elements
};

/// Implements Communicator::run over MPI: MPI_Ialltoall and MPI_Iallgather. Pieces longer than the channel's max_count
/// are sent in several calls. The first transfer begins at once. Later transfers begin inside `poll` or `wait` of any
/// Work of the same channel, in the order of the calls of start_stages, which must be the same on every rank. The call
/// that begins a transfer throws BrokenInvariant for a scope that these ranks do not have.
std::unique_ptr<Work> start_stages(std::shared_ptr<MpiChannel> channel, const Call& call, Stages stages);

/// Implements collectives over MPI. All of them use non-blocking calls and wait in MpiGroup::wait. Tensors on a GPU and
/// half precision travel through a host copy (half as float32), so that any MPI works.
class MpiCommunicator final : public Communicator {
 public:
  static constexpr int64_t kMaxCount = int64_t{1} << 30;  // elements; MPI counts are ints

  /// All ranks must call it. Longer data are sent in pieces. A `host_block` above 0 replaces MpiGroup::host_block.
  explicit MpiCommunicator(std::shared_ptr<MpiGroup> group, int64_t max_count = kMaxCount, int host_block = 0);

  int rank() const override { return channel_->group->rank(); }
  int size() const override { return channel_->group->size(); }
  int local_rank() const override { return channel_->group->local_rank(); }
  int local_size() const override { return channel_->group->local_size(); }
  int host_block() const override { return channel_->host_block; }
  std::string name() const override { return "mpi"; }
  torch::Device device() const override { return torch::kCPU; }

  std::unique_ptr<Work> all_reduce(torch::Tensor tensor, ReduceOp op) override;
  std::unique_ptr<Work> run(Stages stages) override;
  void broadcast(torch::Tensor tensor, int root) override;
  void barrier() override;
  void keep_alive() override { group().keep_alive(); }
  std::vector<std::string> all_gather_bytes(const std::string& bytes) override;
  std::string broadcast_bytes(const std::string& bytes, int root) override;
  void finish() override;
  bool announce_failure(const std::string& reason) noexcept override;
  void abort(const std::string& reason) noexcept override;

  MpiGroup& group() { return *channel_->group; }
  std::shared_ptr<MpiGroup> shared_group() { return channel_->group; }

 private:
  std::shared_ptr<MpiChannel> channel_;
};

}  // namespace foretime::comm
