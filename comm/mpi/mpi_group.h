#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mpi.h>

namespace foretime::comm {

/// Identifies one collective: its name and its number in the common order of calls, from 1.
struct Call {
  const char* what = "";
  int64_t sequence = 0;
  /// Returns a text such as "all_reduce #17".
  std::string text() const;
};

/// Exchanges short messages between ranks independently of collectives: questions for a rank's position, answers, and
/// notices of its end. They use a separate MPI communicator, so that they cannot be confused with data, and need no
/// collective to be in progress. A rank answers when it polls: while it waits in any collective. A rank that computes,
/// sleeps or is dead does not answer.
class PeerWatch {
 public:
  /// Takes ownership of `comm`, whose errors must come back as codes.
  explicit PeerWatch(MPI_Comm comm);
  /// Frees its objects without communicating. After a failure it must not be destroyed, because MPI may still write to
  /// it.
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  /// Handles messages that have arrived: answers questions with (`entered`, `action`), records answers and notices.
  /// `works` means that this rank makes progress and does not wait. Throws CommError.
  void serve(int64_t entered, const std::string& action, bool works = false);

  struct Notice {
    int rank;
    std::string reason;
  };
  /// Returns the notice of the lowest rank that has announced its end; nullopt if none has.
  const std::optional<Notice>& notice() const { return notice_; }

  /// Asks every peer for its position, and clears the answers of earlier questions.
  void ask();
  struct Answer {
    int64_t entered;     // collectives that the peer has entered
    std::string action;  // "waits in barrier #4", "works"
  };
  /// Returns the answers to the last question by rank; nullopt for a rank that has not answered.
  const std::vector<std::optional<Answer>>& answers() const { return answers_; }
  /// Returns the time of the peer's last answer that it works; the clock's epoch if there is none.
  std::chrono::steady_clock::time_point worked_at(int rank) const { return worked_at_[rank]; }

  /// Reports to every peer that this rank ends, and waits at most `limit` until the messages are sent.
  void announce_end(const std::string& reason, std::chrono::duration<double> limit);

 private:
  enum class Kind : int32_t { question, answer, end };
  struct Message {
    Kind kind{};
    int32_t round = 0;
    int32_t works = 0;
    int64_t entered = 0;
    std::array<char, 488> text{};
  };
  struct Sending {
    Message message;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  /// Starts receiving the next message.
  void listen();
  /// Starts sending a message with this text.
  void send(int to, const Message& header, const std::string& text);
  /// Frees messages that have been sent.
  void drop_sent();

  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  int32_t round_ = 0;
  Message incoming_;
  MPI_Request receiving_ = MPI_REQUEST_NULL;
  std::list<Sending> sending_;  // std::list, because MPI reads the messages at their addresses
  std::vector<std::optional<Answer>> answers_;
  std::vector<std::chrono::steady_clock::time_point> worked_at_;  // [ranks]
  std::optional<Notice> notice_;
};

/// Manages MPI in this process: the ranks of MPI_COMM_WORLD, their PeerWatch, and the one function in which all
/// collectives wait. The backends share one group; it must be made before them, once in a process.
///
/// After a failure MPI is not finalised, because MPI_Finalize would wait for ranks that may never come: the process
/// returns its exit code from main, and mpirun ends the others with the code of the first rank that failed. The
/// destructor does not communicate.
class MpiGroup {
 public:
  /// Calls MPI_Init_thread unless MPI is initialised. Throws CommError.
  explicit MpiGroup(std::chrono::duration<double> timeout);
  ~MpiGroup();
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  /// Returns the time limit of one collective.
  std::chrono::duration<double> timeout() const { return timeout_; }
  /// Returns the host name of each rank.
  const std::vector<std::string>& hosts() const { return hosts_; }
  /// Returns the value of Communicator::host_block.
  int host_block() const { return host_block_; }

  /// Returns a private duplicate of MPI_COMM_WORLD that returns error codes. Collective. Free it with MPI_Comm_free.
  MPI_Comm duplicate() const;
  /// Returns a communicator of the ranks with equal `color`, in the order of the ranks, that returns error codes.
  /// Collective.
  MPI_Comm split(int color) const;

  /// Numbers the collective that begins now. Throws CommError if the group has failed before.
  Call enter(const char* what);
  /// Calls `finished` until it returns true, and answers peers meanwhile. If the time limit is exceeded, it throws
  /// PeerLostError naming the late ranks, with their hosts if there are several (it asks them after half of the limit,
  /// and shortly before its end). If a rank called `abort`, it throws PeerLostError naming that rank and its reason.
  /// The time limit restarts while each late rank reports progress (`keep_alive`).
  void wait(const Call& call, const std::function<bool()>& finished);
  /// Implements Communicator::keep_alive.
  void keep_alive();
  /// Waits for all ranks, on a separate communicator, so that a rank in another collective is recognised.
  void meet(const char* what);
  /// Waits for all ranks and finalises MPI, unless other code initialised it; no call may follow. Throws CommError or
  /// PeerLostError, and then does not finalise.
  void finish();
  /// Implements Communicator::announce_failure.
  bool announce_failure(const std::string& reason) noexcept;
  /// Reports to all peers that this rank ends, or waits for a moment if a peer has reported so. Never throws.
  void abort(const std::string& reason) noexcept;
  /// Records a failure outside of `wait`: the group is not usable any more.
  void mark_failed(const std::string& why);
  /// Returns "rank 3", or "rank 3 on h2" if the ranks are on several hosts.
  std::string name_of(int rank) const;
  bool failed() const { return !failure_.empty(); }

  /// Throws CommError unless `code` is MPI_SUCCESS.
  void check(int code, const char* what);

 private:
  std::chrono::duration<double> timeout_;
  bool owns_mpi_ = false;
  bool finished_ = false, peer_has_failed_ = false, announced_ = false;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1, host_block_ = 1;
  int64_t entered_ = 0;

  /// Returns whether all ranks that `call` waits for have reported progress since `since`.
  bool others_work(const Call& call, std::chrono::steady_clock::time_point since) const;
  /// Throws PeerLostError if a peer has reported its end. `here` describes this rank's action.
  void check_notice(const std::string& here);

  std::string failure_;
  std::vector<std::string> hosts_;
  MPI_Comm barrier_comm_ = MPI_COMM_NULL;
  std::unique_ptr<PeerWatch> watch_;
};

/// Returns the text of an MPI return code.
std::string mpi_error_text(int code);

}  // namespace foretime::comm
