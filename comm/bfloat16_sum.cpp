#include "comm/bfloat16_sum.h"

namespace foretime::comm {

torch::Tensor to_bfloat16_pieces(const torch::Tensor& tensor, int ranks) {
  const torch::NoGradGuard no_grad;
  const int64_t count = tensor.numel(), piece = (count + ranks - 1) / ranks;
  auto pieces = torch::empty({ranks, piece}, tensor.options().dtype(torch::kBFloat16).requires_grad(false));
  auto flat = pieces.view({-1});
  flat.narrow(0, 0, count).copy_(tensor.detach().reshape({-1}));
  flat.narrow(0, count, ranks * piece - count).zero_();
  return pieces;
}

torch::Tensor sum_in_float32(const torch::Tensor& pieces) {
  const torch::NoGradGuard no_grad;
  auto sum = pieces[0].to(torch::kFloat);
  for (int64_t rank = 1; rank < pieces.size(0); ++rank) sum.add_(pieces[rank]);
  return sum.to(torch::kBFloat16);
}

void from_bfloat16_pieces(const torch::Tensor& pieces, torch::Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  tensor.copy_(pieces.reshape({-1}).narrow(0, 0, tensor.numel()).view(tensor.sizes()));
}

}  // namespace foretime::comm
