#pragma once

#include <memory>
#include <string>
#include <vector>

#include <mpi.h>

#include "comm/communicator.h"
#include "comm/mpi/mpi_group.h"

namespace foretime::comm {

/// Collectives over MPI, all of them non-blocking underneath and waited for through MpiGroup::wait. Tensors on a GPU
/// and half precision travel through a host copy (half as float32), so any MPI will do.
class MpiCommunicator final : public Communicator {
 public:
  // MPI counts are ints.
  static constexpr int64_t kMaxCount = int64_t{1} << 30;

  /// Longer data travel in pieces of `max_count` elements. Collective.
  explicit MpiCommunicator(std::shared_ptr<MpiGroup> group, int64_t max_count = kMaxCount);
  ~MpiCommunicator() override;

  int rank() const override;
  int size() const override;
  int local_rank() const override;
  int local_size() const override;
  std::string name() const override { return "mpi"; }
  torch::Device device() const override { return torch::kCPU; }

  std::unique_ptr<Work> all_reduce(torch::Tensor tensor, ReduceOp op) override;
  std::unique_ptr<Work> run(Stages stages) override;
  void broadcast(torch::Tensor tensor, int root) override;
  void barrier() override;
  std::vector<std::string> all_gather_bytes(const std::string& bytes) override;
  std::string broadcast_bytes(const std::string& bytes, int root) override;
  void finish() override;
  void abort(const std::string& reason) noexcept override;

  MpiGroup& group();
  std::shared_ptr<MpiGroup> shared_group();

  /// The MPI communicator that data travel on, and what may not be freed while MPI uses it. Shared with every Work.
  struct Channel;

 private:
  std::shared_ptr<Channel> channel_;
};

}  // namespace foretime::comm
