#pragma once

#include <torch/torch.h>

namespace foretime::comm {

/// The arithmetic of Communicator::all_reduce_bfloat16, on whatever device the tensors are. A rank sends piece r of its
/// tensor to rank r (all to all), adds the pieces that it gets in float32, and sends the rounded sum to all (gather).

/// float32 values of any shape as [ranks, piece] bfloat16, rounded to nearest even and filled up with zeros;
/// piece = ceil(numel / ranks).
torch::Tensor to_bfloat16_pieces(const torch::Tensor& tensor, int ranks);

/// [ranks, piece] bfloat16 → [piece] bfloat16: the sum over ranks, in float32 and in their order, rounded once.
torch::Tensor sum_in_float32(const torch::Tensor& pieces);

/// Copies [ranks, piece] bfloat16, without the zeros at the end, to `tensor`.
void from_bfloat16_pieces(const torch::Tensor& pieces, torch::Tensor& tensor);

}  // namespace foretime::comm
