#pragma once

#include <torch/types.h>

namespace foretime::comm {

/// What every backend asks of the tensors of its collectives: contiguous, and float16, bfloat16, float32, float64,
/// int64, int32 or uint8. Throws CommError naming the rank, the call and what was found.
void require_reducible(int rank, const char* call, const torch::Tensor& tensor);
/// What all_reduce_bfloat16 asks: contiguous and float32.
void require_float32(int rank, const char* call, const torch::Tensor& tensor);
/// Throws CommError unless 0 <= root < size.
void require_root(int rank, int size, const char* call, int root);

}  // namespace foretime::comm
