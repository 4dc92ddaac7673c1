#include "comm/tensor_check.h"

#include <fmt/format.h>

#include "comm/communicator.h"

namespace foretime::comm {

void require_reducible(int rank, const char* call, const torch::Tensor& tensor) {
  if (!tensor.defined()) throw CommError(fmt::format("rank {}: {}: the tensor is undefined", rank, call));
  if (!tensor.is_contiguous()) {
    throw CommError(fmt::format("rank {}: {}: the tensor is not contiguous; expected a contiguous one", rank, call));
  }
  switch (tensor.scalar_type()) {
    case torch::kHalf:
    case torch::kBFloat16:
    case torch::kFloat:
    case torch::kDouble:
    case torch::kLong:
    case torch::kInt:
    case torch::kByte:
      return;
    default:
      throw CommError(
          fmt::format("rank {}: {}: type {}, expected float16, bfloat16, float32, float64, int64, int32 or uint8", rank,
                      call, c10::toString(tensor.scalar_type())));
  }
}

void require_float32(int rank, const char* call, const torch::Tensor& tensor) {
  require_reducible(rank, call, tensor);
  if (tensor.scalar_type() != torch::kFloat) {
    throw CommError(
        fmt::format("rank {}: {}: type {}, expected float32", rank, call, c10::toString(tensor.scalar_type())));
  }
}

void require_root(int rank, int size, const char* call, int root) {
  if (root < 0 || root >= size) {
    throw CommError(fmt::format("rank {}: {}: root {}, expected 0 to {}", rank, call, root, size - 1));
  }
}

}  // namespace foretime::comm
