#include "comm/single.h"

#include <fmt/format.h>

#include "comm/tensor_check.h"

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
    throw CommError(fmt::format("rank 0: {}: a group of one rank runs no stages", stages.call));
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

}  // namespace

std::unique_ptr<Communicator> make_single_communicator() { return std::make_unique<SingleCommunicator>(); }

}  // namespace foretime::comm
