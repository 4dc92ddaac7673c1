#include "worker/state/replicas.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "coordinator/checkpoint_store.h"

namespace foretime::worker {
namespace {

struct Replica {
  std::vector<std::string> names;
  std::vector<uint64_t> checksums;  // [tensors]

  void add(const std::string& name, const torch::Tensor& tensor) {
    const auto host = tensor.detach().to(torch::kCPU).contiguous();
    names.push_back(name);
    checksums.push_back(checksum_of(std::span(static_cast<const std::byte*>(host.data_ptr()), host.nbytes())));
  }
};

}  // namespace

void compare_replicas(const models::CostModel& model, int64_t step, comm::Communicator& comm) {
  if (comm.size() == 1) return;
  Replica own;
  for (const auto& parameter : model.named_parameters()) own.add(parameter.key(), parameter.value());
  for (const auto& buffer : model.named_buffers()) own.add(buffer.key(), buffer.value());
  const size_t bytes = own.checksums.size() * sizeof(uint64_t);
  const auto all = comm.all_gather_bytes(std::string(reinterpret_cast<const char*>(own.checksums.data()), bytes));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    size_t differ = 0, first = own.names.size();
    for (size_t i = own.names.size(); i-- > 0;) {
      const size_t at = i * sizeof(uint64_t);
      if (all[rank].compare(at, sizeof(uint64_t), all[0], at, sizeof(uint64_t)) == 0) continue;
      ++differ;
      first = i;
    }
    throw coordinator::RunError(
        "after step {}, {} of {} tensors of rank {} differ from those of rank 0, first {}: "
        "the ranks no longer train one model, and no checkpoint of it was written. "
        "Memory or a processor may be faulty; the run can continue from its last checkpoint. If ranks are on "
        "different processors, which round differently, checkpoint.compare_replicas=false uses the weights of rank 0",
        step, differ, own.names.size(), rank, first < own.names.size() ? own.names[first] : "their number");
  }
}

}  // namespace foretime::worker
