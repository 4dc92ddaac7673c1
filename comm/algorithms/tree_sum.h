#pragma once

#include <cstdint>
#include <memory>

#include <torch/types.h>

#include "comm/communicator.h"

namespace foretime::comm {

/// How float32 values travel between ranks. They are added in float32.
enum class Wire : uint8_t {
  float32,
  bfloat16,  // half the bytes: each rank's value is rounded, and the sum, once; each within 2^-8 of what it rounds
};

/// Where pieces are added up.
enum class Route : uint8_t {
  direct,    // piece r on rank r, to which every rank sends its own
  by_hosts,  // first within blocks of ranks that share a host (Communicator::host_block), then between the blocks
  fastest,   // by_hosts, where there are such blocks and what it saves is worth two more exchanges
};

/// Sums a float32 tensor over all ranks, in place: pieces are exchanged, added, and gathered. All ranks get the same
/// bits, and ranks that lie on other hosts the same: values are added in a binary tree over the ranks (0 + 1, 2 + 3, …,
/// then those sums in pairs, and so on), of which a block is a part. With one rank nothing travels and nothing is
/// rounded.
///
/// Each rank sends 2 (n - 1) / n of the tensor (MPI_Iallreduce, in Open MPI a tree without pipelining, up to log2 n
/// tensors, twice in a row). Of a host with b ranks, of h, 2 b (h - 1) / h tensors leave directly, and 2 (h - 1) / h by
/// hosts; as bfloat16 1 b (h - 1) / h and 1.5 (h - 1) / h, as sums of a block travel as float32.
std::unique_ptr<Work> sum_in_tree(Communicator& comm, torch::Tensor tensor, Wire wire, Route route = Route::fastest);

}  // namespace foretime::comm
