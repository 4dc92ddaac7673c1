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

/// What the collectives of one MpiCommunicator share: what data travel on. Its destructor frees nothing of MPI;
/// `MpiCommunicator::finish` does.
struct MpiChannel {
  std::shared_ptr<MpiGroup> group;
  MPI_Comm comm = MPI_COMM_NULL;
  // Of an algorithm's transfers by number and scope, but for number 0 of all ranks, which is `comm`. Later transfers
  // begin whenever earlier ones end, so each number needs an order of its own.
  std::map<std::pair<size_t, Scope>, MPI_Comm> later;
  int host_block = 1;
  std::weak_ptr<MpiStages> last_stages;
  int64_t max_count = 0;
};

/// Communicator::run over MPI: MPI_Ialltoall and MPI_Iallgather. Pieces longer than the channel's max_count travel in
/// several calls. Stages after the first begin inside a `poll` or `wait` of any such work, in the order of the calls on
/// every rank.
std::unique_ptr<Work> start_stages(std::shared_ptr<MpiChannel> channel, const Call& call, Stages stages);

/// Collectives over MPI, all of them non-blocking underneath and waited for through MpiGroup::wait. Tensors on a GPU
/// and half precision travel through a host copy (half as float32), so any MPI will do.
class MpiCommunicator final : public Communicator {
 public:
  // MPI counts are ints.
  static constexpr int64_t kMaxCount = int64_t{1} << 30;

  /// Longer data travel in pieces of `max_count` elements. `host_block` 0: as the group has it. Collective.
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
