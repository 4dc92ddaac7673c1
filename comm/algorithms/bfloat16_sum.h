#pragma once

#include <memory>

#include <torch/types.h>

#include "comm/communicator.h"

namespace foretime::comm {

/// Sums a float32 tensor over all ranks, in place, with half of all_reduce's bytes: values travel as bfloat16, are
/// added in float32 in the order of the ranks, and the sum travels as bfloat16. All ranks get the same bits. Each
/// rounding is within 2^-8 of what it rounds: the ranks' values, and their sum, once. With one rank nothing travels and
/// nothing is rounded.
///
/// Rank r adds up piece r of all tensors: pieces are exchanged (all to all), summed, and gathered.
std::unique_ptr<Work> all_reduce_bfloat16(Communicator& comm, torch::Tensor tensor);

}  // namespace foretime::comm
