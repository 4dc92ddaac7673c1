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

#include "base/no_copy.h"

namespace foretime::comm {

/// Identifies one collective: `what` is its name, `sequence` its number in the common order of calls, from 1.
struct Call {
  const char* what = "";
  int64_t sequence = 0;
  /// Returns a text such as "all_reduce #17".
  std::string text() const;
};

/// Exchanges short messages between ranks independently of collectives: questions for a rank's position, answers, and
/// notices of a rank's end. Messages use a separate MPI communicator, so that they cannot be confused with data, and
/// need no collective to be in progress. A rank answers in serve(): while it waits in any collective, and in
/// keep_alive(). A rank that computes, sleeps or is dead does not answer. All functions throw CommError if MPI fails.
class PeerWatch : NoCopy {
 public:
  /// Takes ownership of `comm`, whose errors must come back as codes.
  explicit PeerWatch(MPI_Comm comm);
  /// Frees MPI's objects without communicating. Not allowed after a failure, because MPI may still write to the object.
  ~PeerWatch();

  /// Answers questions that have arrived with (`entered`, `action`), and records answers and notices. `works` means
  /// that this rank makes progress and does not wait.
  void serve(int64_t entered, const std::string& action, bool works = false);

  struct Notice {
    int rank;            // rank that ends
    std::string reason;  // the rank's error, cut after 488 bytes
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
  /// Returns the time at which `rank` last answered that it works; the clock's epoch if it never did.
  std::chrono::steady_clock::time_point worked_at(int rank) const { return worked_at_[rank]; }

  /// Reports to every peer that this rank ends for this reason, and waits until the messages are sent, at most `limit`.
  void announce_end(const std::string& reason, std::chrono::duration<double> limit);

 private:
  enum class Kind : int32_t { question, answer, end };
  struct Message {
    Kind kind{};
    int32_t round = 0;             // number of the question
    int32_t works = 0;             // 1: the sender makes progress and does not wait
    int64_t entered = 0;           // collectives that the sender has entered
    std::array<char, 488> text{};  // action of an answer, reason of an end
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
  int32_t round_ = 0;  // number of the last question
  Message incoming_;   // receives the next message
  MPI_Request receiving_ = MPI_REQUEST_NULL;
  std::list<Sending> sending_;  // messages that MPI still reads, at fixed addresses
  std::vector<std::optional<Answer>> answers_;
  std::vector<std::chrono::steady_clock::time_point> worked_at_;  // [ranks] see worked_at
  std::optional<Notice> notice_;
};

/// Manages MPI in this process: the ranks of MPI_COMM_WORLD, their PeerWatch, and the one function in which all
/// collectives wait. The backends share one group, which must be made before them, once in a process. Functions that
/// communicate throw CommError if MPI fails, unless they are noexcept. After a failure MPI is not finalised, because
/// MPI_Finalize would wait for ranks that may never come: the process returns its exit code from main, and mpirun ends
/// the others with the code of the first rank that failed. The destructor does not communicate.
class MpiGroup : NoCopy {
 public:
  /// Initialises MPI unless that is done. All ranks must call it. `timeout` is the limit of one collective. Throws
  /// CommError if MPI was finalised or allows one thread only.
  explicit MpiGroup(std::chrono::duration<double> timeout);
  ~MpiGroup();

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

  /// Returns a duplicate of MPI_COMM_WORLD that returns error codes, for the caller to free. All ranks must call it.
  MPI_Comm duplicate() const;
  /// Returns a communicator of the ranks with equal `color`, in the order of the ranks; otherwise as duplicate().
  MPI_Comm split(int color) const;

  /// Returns the name and number of the collective `what` that begins now. Throws CommError if the group has failed.
  Call enter(const char* what);
  /// Calls `finished` until it returns true, and answers peers meanwhile. Throws PeerLostError naming the late ranks
  /// (and their hosts if there are several) after the time limit, which restarts while each late rank reports progress;
  /// PeerLostError naming rank and reason if a rank has reported its end; CommError if the group has failed.
  void wait(const Call& call, const std::function<bool()>& finished);
  /// Implements Communicator::keep_alive.
  void keep_alive();
  /// Waits until all ranks have called meet(); a rank in another collective counts as late. Throws as wait() does.
  void meet(const char* what);
  /// Waits for all ranks as meet() does, then finalises MPI unless other code initialised it. No call may follow.
  void finish();
  /// Implements Communicator::announce_failure.
  bool announce_failure(const std::string& reason) noexcept;
  /// Reports to all peers that this rank ends for this reason; waits for 10 s instead if a peer has reported its end.
  /// Does nothing but record the reason after finish().
  void abort(const std::string& reason) noexcept;
  /// Records a failure outside of wait(); only the first one is kept. Later calls of enter() and wait() throw.
  void mark_failed(const std::string& why);
  /// Returns "rank 3", or "rank 3 on h2" if the ranks are on several hosts.
  std::string name_of(int rank) const;
  bool failed() const { return !failure_.empty(); }

  /// Unless `code` is MPI_SUCCESS, marks the group as failed and throws CommError naming the MPI function `what`.
  void check(int code, const char* what);

 private:
  std::chrono::duration<double> timeout_;
  bool owns_mpi_ = false;                                                // this object initialised MPI
  bool finished_ = false, peer_has_failed_ = false, announced_ = false;  // announced_: this rank reported its end
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1, host_block_ = 1;
  int64_t entered_ = 0;  // number of collectives that began on this rank

  /// Returns whether any rank has reported progress since `since`, including all that have not entered `call`.
  bool others_work(const Call& call, std::chrono::steady_clock::time_point since) const;
  /// Throws PeerLostError if a peer has reported its end. `here` describes this rank's action in the message.
  void check_notice(const std::string& here);

  std::string failure_;                    // message of the first failure; "": none
  std::vector<std::string> hosts_;         // [ranks] host names
  MPI_Comm barrier_comm_ = MPI_COMM_NULL;  // used by meet()
  std::unique_ptr<PeerWatch> watch_;
};

/// Returns the text of an MPI return code.
std::string mpi_error_text(int code);

}  // namespace foretime::comm
