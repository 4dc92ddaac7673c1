#include "comm/algorithms/bfloat16_sum.h"

namespace foretime::comm {

namespace {

/// float32 values of any shape as [ranks, piece] bfloat16, rounded to nearest even and filled up with zeros;
/// piece = ceil(numel / ranks).
torch::Tensor to_bfloat16_pieces(const torch::Tensor& tensor, int ranks) {
  const torch::NoGradGuard no_grad;
  const int64_t count = tensor.numel(), piece = (count + ranks - 1) / ranks;
  auto pieces = torch::empty({ranks, piece}, tensor.options().dtype(torch::kBFloat16).requires_grad(false));
  auto flat = pieces.view({-1});
  flat.narrow(0, 0, count).copy_(tensor.detach().reshape({-1}));
  flat.narrow(0, count, ranks * piece - count).zero_();
  return pieces;
}

/// [ranks, piece] bfloat16 → [piece] bfloat16: the sum over ranks, in float32 and in their order, rounded once.
torch::Tensor sum_in_float32(const torch::Tensor& pieces) {
  const torch::NoGradGuard no_grad;
  auto sum = pieces[0].to(torch::kFloat);
  for (int64_t rank = 1; rank < pieces.size(0); ++rank) sum.add_(pieces[rank]);
  return sum.to(torch::kBFloat16);
}

/// Copies [ranks, piece] bfloat16, without the zeros at the end, to `tensor`.
void from_bfloat16_pieces(const torch::Tensor& pieces, torch::Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  tensor.copy_(pieces.reshape({-1}).narrow(0, 0, tensor.numel()).view(tensor.sizes()));
}

}  // namespace

std::unique_ptr<Work> all_reduce_bfloat16(Communicator& comm, torch::Tensor tensor) {
  require_reducible(comm.rank(), "all_reduce_bfloat16", tensor);
  if (tensor.scalar_type() != torch::kFloat)
    throw CommError("rank {}: all_reduce_bfloat16: type {}, expected float32", comm.rank(),
                    c10::toString(tensor.scalar_type()));
  if (comm.size() == 1 || tensor.numel() == 0) return comm.all_reduce(std::move(tensor));
  // Made on the compute stream, which a GPU's transport waits for. A transport of the host gets a copy there.
  auto pieces = to_bfloat16_pieces(tensor, comm.size());
  if (comm.device().is_cpu()) pieces = pieces.cpu();
  auto received = torch::empty_like(pieces);
  auto own = pieces[comm.rank()];
  return comm.run(
      {.call = "all_reduce_bfloat16",
       .list = {AllToAll{pieces, received},
                // The exchange is through on this side: what was sent is no longer read, and takes the result.
                Compute([own, received]() mutable { own.copy_(sum_in_float32(received)); }), AllGather{pieces},
                Compute([pieces, tensor]() mutable { from_bfloat16_pieces(pieces, tensor); })},
       .tensors = {tensor, pieces, received}});
}

}  // namespace foretime::comm
