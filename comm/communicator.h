#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <torch/types.h>

#include "base/error.h"

namespace foretime::comm {

/// A communication or device failure; the message names the rank and the call.
struct CommError : ErrorOf<kComm> {
  using ErrorOf::ErrorOf;
};

/// Another rank died, or did not come to a collective in time; the message names it where it is known.
struct PeerLostError : ErrorOf<kPeerLost, CommError> {
  using ErrorOf::ErrorOf;
};

enum class ReduceOp : uint8_t { sum, max, min };

/// Represents a collective in progress. Its tensor must stay alive until `wait` returns.
class Work {
 public:
  virtual ~Work() = default;
  /// Blocks until the result is there (on a GPU: until the current stream is ordered after it). Throws CommError,
  /// PeerLostError.
  virtual void wait() = 0;
  /// Orders further work of LibTorch's current stream after the collective, as `wait` does, but without blocking the
  /// host if the stream is a GPU's. The communicator keeps the tensors, and reports failures in a later call, in
  /// Communicator::settle at the latest.
  virtual void order() { wait(); }
  /// Lets the transport move data while the caller computes (MPI does so only inside its calls); true once the result
  /// is on its way out of `wait` without blocking. Need not be called.
  virtual bool poll() { return false; }
};

/// Names the ranks that take part in a stage. Rows of its tensors are these ranks, in their order. With b =
/// `host_block()`:
enum class Scope : uint8_t {
  all,
  block,   // the b ranks of this rank's block, which share a host
  across,  // the ranks with this rank's place in each block, one of each
};
/// Row r of `send` goes to rank r; row r of `receive` comes from rank r. Both are [ranks, piece].
struct AllToAll {
  torch::Tensor send, receive;
  Scope scope = Scope::all;
};
/// Row r of `pieces`, [ranks, piece], is set by rank r; every rank gets all rows.
struct AllGather {
  torch::Tensor pieces;
  Scope scope = Scope::all;
};
/// A computation of this rank on tensors of the stages around it.
using Compute = std::function<void()>;

/// Holds the stages of an algorithm (comm/algorithms/), which begin in this order, each when the previous one is done.
struct Stages {
  const char* call;  // the collective's name, for messages
  std::vector<std::variant<AllToAll, AllGather, Compute>> list;
  std::vector<torch::Tensor> tensors;  // all tensors that the stages read or write, on one device
};

/// One member of a fixed group of processes. Every rank makes the same calls in the same order, from one thread at a
/// time. The owner ends with `finish` or `abort`; the destructor only releases, and talks to nobody. Tensors are
/// contiguous, of the same type and size on every rank. Failures throw CommError, which names the rank and the call.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Rank and number of ranks on this host, for choosing devices and threads.
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;
  /// The largest power of two b such that ranks k b … k b + b - 1 share a host, for each k; the same on all ranks.
  /// 1 where a backend does not divide its ranks (nccl, which knows hosts by itself).
  virtual int host_block() const { return 1; }
  /// Returns the word of configs::Backend for this implementation: single, mpi or nccl.
  virtual std::string name() const = 0;
  /// Returns the device of the tensors of its collectives: torch::kCPU, or this rank's GPU (nccl).
  virtual torch::Device device() const = 0;

  /// Reduces `tensor` over all ranks, in place. Returns at once; `Work::wait` blocks until the result is there.
  virtual std::unique_ptr<Work> all_reduce(torch::Tensor tensor, ReduceOp op = ReduceOp::sum) = 0;
  /// Starts an algorithm's stages, on the same list of stages on every rank: at most four transfers, of pieces of
  /// float32 or bfloat16. Scopes other than `all` need 1 < host_block() < size(). On a GPU the stages follow each other
  /// on the transport's stream; elsewhere they may need `poll` or `wait`, of this or of a later Work, to begin. Groups
  /// of one rank have no use for it.
  virtual std::unique_ptr<Work> run(Stages stages) = 0;
  /// Copies `tensor` from `root` to all, in place.
  virtual void broadcast(torch::Tensor tensor, int root) = 0;
  virtual void barrier() = 0;
  /// Reports to waiting peers that this rank makes progress, which restarts the time limit of the collective in which
  /// they wait. For work whose length differs between ranks, after each piece of it. Throws PeerLostError if a peer has
  /// ended meanwhile.
  virtual void keep_alive() {}
  /// Waits, with the time limit, for all work that was only ordered. Must precede the reading of its results, because a
  /// read from a GPU has no time limit.
  virtual void settle() {}

  /// Host bytes, of any length, which may differ between ranks; every rank gets all of them, by rank.
  virtual std::vector<std::string> all_gather_bytes(const std::string& bytes) = 0;
  /// Host bytes from `root` to all; the argument is ignored elsewhere.
  virtual std::string broadcast_bytes(const std::string& bytes, int root) = 0;

  /// The last call of a good run: meets all ranks, so that one that is lost at the very end is still noticed, and ends
  /// the transport. No Work may be under way. Throws CommError, PeerLostError.
  virtual void finish() = 0;
  /// Reports to the peers, before `abort`, that this rank has failed. Returns whether this rank prints the error: false
  /// where a rank before it, which has failed as well, or the peer that made it fail does so. Waits up to a second for
  /// word of them, rank 0 excepted.
  virtual bool announce_failure(const std::string& /*reason*/) noexcept { return true; }
  /// The last call of a failed run: reports to peers that this rank has failed, so that they end at once (PeerLostError
  /// with this reason, in the call that they wait in). A rank that fails because of such a report waits here for ten
  /// seconds, so that the peer's exit code is the first. Never throws.
  virtual void abort(const std::string& reason) noexcept = 0;
};

/// Returns whether a tensor borrows its memory (torch::from_blob without a deleter), which may then be freed while a
/// transport still uses it: after a time-out a late peer's data may arrive until the process ends. Backends copy such
/// tensors.
bool borrowed(const torch::Tensor& tensor);

/// Checks the requirements of all backends for tensors of collectives: contiguous, and float16, bfloat16, float32,
/// float64, int64, int32 or uint8. Throws CommError naming the rank, the call and the found value.
void require_reducible(int rank, const char* call, const torch::Tensor& tensor);
/// Throws CommError unless 0 <= root < size.
void require_root(int rank, int size, const char* call, int root);

/// Reports another rank's failure, in a step that all ranks take together.
struct RemoteError : Error {
  using Error::Error;
};

/// Runs `step` on every rank and makes all ranks throw if it throws on some rank: the first of these ranks rethrows its
/// exception; all others, also those that failed too, throw a RemoteError with its message and exit code. The error is
/// then reported once, and no rank waits in a collective for ever.
void run_together(Communicator& comm, const std::function<void()>& step);

}  // namespace foretime::comm
