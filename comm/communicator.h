#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "base/error.h"

namespace foretime::comm {

/// A communication or device failure; the message names the rank and the call.
class CommError : public Error {
 public:
  explicit CommError(const std::string& message) : Error(kComm, message) {}

 protected:
  CommError(int exit_code, const std::string& message) : Error(exit_code, message) {}
};

/// Another rank died, or did not come to a collective in time; the message names it where it is known.
class PeerLostError : public CommError {
 public:
  explicit PeerLostError(const std::string& message) : CommError(kPeerLost, message) {}
};

enum class ReduceOp : uint8_t { sum, max, min };

/// A collective under way. Its tensor must stay alive until `wait` returns.
class Work {
 public:
  virtual ~Work() = default;
  /// Blocks until the result is there (on a GPU: until the current stream is ordered after it). Throws CommError,
  /// PeerLostError.
  virtual void wait() = 0;
  /// Lets the transport move data while the caller computes (MPI does so only inside its calls); true once the result
  /// is on its way out of `wait` without blocking. Need not be called.
  virtual bool poll() { return false; }
};

/// One member of a fixed group of processes. Every rank makes the same calls in the same order, from one thread at a
/// time. Tensors are contiguous, of the same type and size on every rank. Failures throw CommError, which names the
/// rank and the call.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Rank and number of ranks on this host, for choosing devices and threads.
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;
  /// single, mpi, nccl or threads.
  virtual std::string name() const = 0;
  /// Where the tensors of its collectives live: torch::kCPU, or this rank's GPU (nccl).
  virtual torch::Device device() const = 0;

  /// Reduces `tensor` over all ranks, in place. Returns at once; `Work::wait` blocks until the result is there.
  virtual std::unique_ptr<Work> all_reduce(torch::Tensor tensor, ReduceOp op = ReduceOp::sum) = 0;
  /// Sums a float32 tensor over all ranks, in place, with half of all_reduce's bytes: values travel as bfloat16, are
  /// added in float32 in the order of the ranks, and the sum travels as bfloat16 (comm/bfloat16_sum.h). All ranks get
  /// the same bits. Each rounding is within 2^-8 of what it rounds: the ranks' values, and their sum, once. With one
  /// rank nothing travels and nothing is rounded.
  virtual std::unique_ptr<Work> all_reduce_bfloat16(torch::Tensor tensor) = 0;
  /// Copies `tensor` from `root` to all, in place.
  virtual void broadcast(torch::Tensor tensor, int root) = 0;
  virtual void barrier() = 0;

  /// Host bytes, of any length, which may differ between ranks; every rank gets all of them, by rank.
  virtual std::vector<std::string> all_gather_bytes(const std::string& bytes) = 0;
  /// Host bytes from `root` to all; the argument is ignored elsewhere.
  virtual std::string broadcast_bytes(const std::string& bytes, int root) = 0;

  /// Tells peers that this rank cannot go on, so that they end at once (PeerLostError with this reason, in the call
  /// that they wait in); called on the way out of a failed run, before the communicator is destroyed: an intact one
  /// meets its peers there. Never throws.
  virtual void abort(const std::string& reason) noexcept = 0;
};

}  // namespace foretime::comm
