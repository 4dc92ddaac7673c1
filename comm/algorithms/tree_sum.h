#pragma once

#include <cstdint>
#include <memory>

#include <torch/types.h>

#include "comm/communicator.h"

namespace foretime::comm {

/// Names the form in which float32 values travel between ranks. The values are added in float32 in both cases.
enum class Wire : uint8_t {
  float32,
  bfloat16,  // half as many bytes: each rank's value and the sum are rounded once, within 2^-8 of the exact value
};

/// Names the ranks between which pieces of a tensor travel to be summed.
enum class Route : uint8_t {
  direct,    // every rank sends its piece r to rank r, which sums the pieces
  by_hosts,  // first within blocks of ranks on one host (host_block), then between them; direct without such blocks
  fastest,   // by_hosts if there are such blocks and the savings exceed the cost of two more exchanges
};

/// Starts the sum of a float32 tensor over all ranks, in place: pieces are exchanged, added, and gathered. All ranks
/// get the same bits, however they are distributed over hosts: values are added in a binary tree over the ranks (0 + 1,
/// 2 + 3, …, then those sums in pairs, and so on), of which a block is a part. With one rank nothing is sent or
/// rounded. Throws BrokenInvariant for other types. Each of n ranks sends 2 (n - 1) / n times the tensor's bytes. Each
/// of h hosts with b ranks sends 2 b (h - 1) / h times these bytes by the route direct, and 2 (h - 1) / h times by
/// hosts; with bfloat16 b (h - 1) / h and 1.5 (h - 1) / h times.
std::unique_ptr<Work> sum_in_tree(Communicator& comm, torch::Tensor tensor, Wire wire, Route route = Route::fastest);

}  // namespace foretime::comm
