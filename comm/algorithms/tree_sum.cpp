#include "comm/algorithms/tree_sum.h"

#include <utility>

#include "base/check.h"

namespace foretime::comm {
namespace {

/// Bytes of all ranks of a host but one, which by hosts need not leave it: what makes up for two more exchanges within
/// (bench/links.py). The model of `foretime plan --predict` has the same number.
constexpr int64_t kLeastBytesSaved = 512 << 10;

/// [ranks, values] → [values]: float32 sums in a binary tree over the rows. Overwrites float32 rows.
torch::Tensor add_rows(const torch::Tensor& rows) {
  const torch::NoGradGuard no_grad;
  const auto sums = rows.to(torch::kFloat);
  const int64_t count = sums.size(0);
  for (int64_t stride = 1; stride < count; stride *= 2)
    for (int64_t row = 0; row + stride < count; row += 2 * stride) sums[row].add_(sums[row + stride]);
  return sums[0];
}

/// Returns the tensor as [ranks, piece] in the wire's type on `device`, padded with zeros; if it fits, without copy.
torch::Tensor to_pieces(const torch::Tensor& tensor, int ranks, Wire wire, const torch::Device& device) {
  const torch::NoGradGuard no_grad;
  const int64_t count = tensor.numel(), piece = (count + ranks - 1) / ranks;
  const auto flat = tensor.detach().reshape({-1});
  if (wire == Wire::float32 && count == ranks * piece && (tensor.is_cpu() || !device.is_cpu()) && !borrowed(tensor))
    return flat.view({ranks, piece});
  const auto type = wire == Wire::bfloat16 ? torch::kBFloat16 : torch::kFloat;
  auto pieces = torch::empty({ranks * piece}, flat.options().dtype(type));
  pieces.narrow(0, 0, count).copy_(flat);
  pieces.narrow(0, count, ranks * piece - count).zero_();
  // Made on the compute stream, which a GPU's transport waits for. A transport of the host gets a copy there.
  if (device.is_cpu()) pieces = pieces.cpu();
  return pieces.view({ranks, piece});
}

Compute copy_back(const torch::Tensor& pieces, const torch::Tensor& tensor) {
  return [pieces, tensor]() mutable {
    const torch::NoGradGuard no_grad;
    if (pieces.data_ptr() == tensor.data_ptr()) return;
    tensor.detach().copy_(pieces.reshape({-1}).narrow(0, 0, tensor.numel()).view(tensor.sizes()));
  };
}

/// Writes the sum into the sent piece, which is not needed any more after the exchange.
Compute add_into(const torch::Tensor& own, const torch::Tensor& received) {
  return [own, received]() mutable {
    const torch::NoGradGuard no_grad;
    own.copy_(add_rows(received).view(own.sizes()));
  };
}

Stages direct_stages(const Communicator& comm, const torch::Tensor& pieces, const torch::Tensor& tensor) {
  const auto received = torch::empty_like(pieces);
  return {.call = "",
          .list = {AllToAll{pieces, received}, add_into(pieces[comm.rank()], received), AllGather{pieces},
                   copy_back(pieces, tensor)},
          .tensors = {tensor, pieces, received}};
}

/// Returns the stages of rank r, at place r % b of block r / b. Row i of `pieces` [b, hosts * piece] is for place i.
Stages stages_by_hosts(const Communicator& comm, const torch::Tensor& pieces, const torch::Tensor& tensor) {
  const int64_t block = comm.host_block(), hosts = comm.size() / block, piece = pieces.size(1);
  const int64_t place = comm.rank() % block, host = comm.rank() / block;
  const auto of_places = pieces.view({block, hosts * piece});
  const auto of_hosts = of_places[place].view({hosts, piece});
  const auto in_block = torch::empty_like(of_places);
  // A block's sums are not rounded: no layout of ranks shall change the result.
  const auto sums = pieces.scalar_type() == torch::kFloat ? of_hosts : torch::empty_like(of_hosts, torch::kFloat);
  const auto across = torch::empty_like(sums);
  return {.call = "",
          .list = {AllToAll{of_places, in_block, Scope::block}, add_into(sums, in_block),
                   AllToAll{sums, across, Scope::across}, add_into(of_hosts[host], across),
                   AllGather{of_hosts, Scope::across}, AllGather{of_places, Scope::block}, copy_back(pieces, tensor)},
          .tensors = {tensor, pieces, in_block, sums, across}};
}

bool goes_by_hosts(const Communicator& comm, const torch::Tensor& pieces, Route route) {
  const int block = comm.host_block();
  if (block == 1 || block == comm.size() || route == Route::direct) return false;
  // Two ranks a host save a quarter as bfloat16, less than two more exchanges cost.
  const bool saves = pieces.scalar_type() == torch::kFloat || block > 2;
  return route == Route::by_hosts || (saves && static_cast<int64_t>(pieces.nbytes()) * (block - 1) >= kLeastBytesSaved);
}

}  // namespace

std::unique_ptr<Work> sum_in_tree(Communicator& comm, torch::Tensor tensor, Wire wire, Route route) {
  const char* call = wire == Wire::bfloat16 ? "all_reduce_bfloat16" : "all_reduce";
  require_reducible(comm.rank(), call, tensor);
  FORETIME_CHECK(tensor.scalar_type() == torch::kFloat, "rank {}: {}", comm.rank(), call);
  if (comm.size() == 1 || tensor.numel() == 0) return comm.all_reduce(std::move(tensor));
  const auto pieces = to_pieces(tensor, comm.size(), wire, comm.device());
  auto stages =
      goes_by_hosts(comm, pieces, route) ? stages_by_hosts(comm, pieces, tensor) : direct_stages(comm, pieces, tensor);
  stages.call = call;
  return comm.run(std::move(stages));
}

}  // namespace foretime::comm
