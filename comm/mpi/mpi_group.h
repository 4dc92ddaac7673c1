#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <mpi.h>

#include "comm/mpi/peer_watch.h"

namespace foretime::comm {

/// MPI of this process: the ranks of MPI_COMM_WORLD, their watch channel, and the one wait that all collectives go
/// through. The backends share one group; it must be made before them, once in a process.
///
/// End of a run. If all went well, the owner calls `finish`, which meets the other ranks (with the time limit) and
/// calls MPI_Finalize. After a failure it calls `abort`, and MPI is not finalised, because MPI_Finalize would wait for
/// ranks that may never come: the process just returns its exit code from main. mpirun then ends the other ranks, and
/// its own exit code is that of the first rank that ended so. A rank that fails only because a peer told it to lingers
/// for two seconds in `abort`, so that the code of the rank where the failure began is the first. The destructor talks
/// to nobody.
class MpiGroup {
 public:
  /// Calls MPI_Init_thread (unless somebody has). Throws CommError.
  explicit MpiGroup(std::chrono::duration<double> timeout);
  ~MpiGroup();
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  std::chrono::duration<double> timeout() const { return timeout_; }

  /// A private duplicate of MPI_COMM_WORLD whose errors come back as codes. Collective. Free it with MPI_Comm_free.
  MPI_Comm duplicate() const;

  /// Numbers the collective that begins now. Throws CommError if the group has failed before.
  Call enter(const char* what);
  /// Returns when `finished` does. Until then it answers peers; throws PeerLostError naming the late ranks when the
  /// time limit is over, or naming the rank that called `abort` and its reason.
  void wait(const Call& call, const std::function<bool()>& finished);
  /// Meets all ranks. Travels beside the data, so a rank in another collective is told apart and not confused.
  void meet(const char* what);
  /// Meets all ranks and finalises MPI, unless somebody else initialised it; no call may follow. Throws CommError,
  /// PeerLostError; nothing is finalised then.
  void finish();
  /// Tells all peers that this rank ends, or lingers where a peer has told it so. Never throws.
  void abort(const std::string& reason) noexcept;
  /// For failures seen outside `wait`: no rank may expect anything of this group any more.
  void mark_failed(const std::string& why);
  bool failed() const { return !failure_.empty(); }

  /// Throws CommError unless `code` is MPI_SUCCESS.
  void check(int code, const char* what);

 private:
  std::chrono::duration<double> timeout_;
  bool owns_mpi_ = false;
  bool finished_ = false, told_by_peer_ = false;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  int64_t entered_ = 0;
  std::string failure_;
  MPI_Comm barrier_comm_ = MPI_COMM_NULL;
  std::unique_ptr<PeerWatch> watch_;
};

/// The text of an MPI return code.
std::string mpi_error_text(int code);

}  // namespace foretime::comm
