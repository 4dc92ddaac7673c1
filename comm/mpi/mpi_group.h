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

/// One collective: its name and its number in the common order of calls, from 1.
struct Call {
  const char* what = "";
  int64_t sequence = 0;
  /// "all_reduce #17"
  std::string text() const;
};

/// Short messages between ranks beside the collectives: where are you, I am here, I end. They travel on an MPI
/// communicator of their own, so they cannot be confused with data, and need no collective to be under way. A rank
/// answers whenever it polls: while it waits in any collective. One that computes, sleeps or is dead does not answer.
class PeerWatch {
 public:
  /// Takes ownership of `comm`, whose errors must come back as codes.
  explicit PeerWatch(MPI_Comm comm);
  /// Frees without talking to anyone. After a failure it may not go: MPI may still write to it.
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  /// Handles what has arrived: answers questions with (`entered`, `action`), records answers and notices. `works`: this
  /// rank does not wait, and gets on. Throws CommError.
  void serve(int64_t entered, const std::string& action, bool works = false);

  struct Notice {
    int rank;
    std::string reason;
  };
  /// Of the peers that have said that they end, the lowest rank's notice.
  const std::optional<Notice>& notice() const { return notice_; }

  /// Asks every peer where it is; answers of earlier questions are forgotten.
  void ask();
  struct Answer {
    int64_t entered;     // collectives that the peer has entered
    std::string action;  // "waits in barrier #4", "works"
  };
  /// By rank; empty where the peer has not answered the last question.
  const std::vector<std::optional<Answer>>& answers() const { return answers_; }
  /// When the peer's last answer arrived that said that it works; the clock's beginning where none has.
  std::chrono::steady_clock::time_point worked_at(int rank) const { return worked_at_[static_cast<size_t>(rank)]; }

  /// Tells every peer that this rank ends, and gives the messages `limit` to leave.
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

  void listen();
  void send(int to, const Message& header, const std::string& text);
  void drop_sent();

  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  int32_t round_ = 0;
  Message incoming_;
  MPI_Request receiving_ = MPI_REQUEST_NULL;
  std::list<Sending> sending_;  // a list: MPI reads the messages where they are
  std::vector<std::optional<Answer>> answers_;
  std::vector<std::chrono::steady_clock::time_point> worked_at_;  // by rank
  std::optional<Notice> notice_;
};

/// MPI of this process: the ranks of MPI_COMM_WORLD, their watch channel, and the one wait that all collectives go
/// through. The backends share one group; it must be made before them, once in a process.
///
/// After a failure MPI is not finalised, because MPI_Finalize would wait for ranks that may never come: the process
/// just returns its exit code from main, and mpirun ends the others with the code of the first rank that ended so. The
/// destructor talks to nobody.
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
  /// Of one collective.
  std::chrono::duration<double> timeout() const { return timeout_; }
  /// By rank: the name of its host.
  const std::vector<std::string>& hosts() const { return hosts_; }
  /// As Communicator::host_block.
  int host_block() const { return host_block_; }

  /// A private duplicate of MPI_COMM_WORLD whose errors come back as codes. Collective. Free it with MPI_Comm_free.
  MPI_Comm duplicate() const;
  /// The same for the ranks that give the same `color`, in the order of the ranks.
  MPI_Comm split(int color) const;

  /// Numbers the collective that begins now. Throws CommError if the group has failed before.
  Call enter(const char* what);
  /// Returns when `finished` does. Until then it answers peers; throws PeerLostError naming the late ranks, and where
  /// there are several the hosts they are on, when the time limit is over (it asks them after half of it, and shortly
  /// before its end), or naming the rank that called `abort` and its reason. The time limit begins anew while each late
  /// rank says that it works (`keep_alive`).
  void wait(const Call& call, const std::function<bool()>& finished);
  /// As Communicator::keep_alive.
  void keep_alive();
  /// Meets all ranks. Travels beside the data, so a rank in another collective is told apart and not confused.
  void meet(const char* what);
  /// Meets all ranks and finalises MPI, unless somebody else initialised it; no call may follow. Throws CommError,
  /// PeerLostError; nothing is finalised then.
  void finish();
  /// As Communicator::announce_failure.
  bool announce_failure(const std::string& reason) noexcept;
  /// Tells all peers that this rank ends, or lingers where a peer has told it so. Never throws.
  void abort(const std::string& reason) noexcept;
  /// For failures seen outside `wait`: no rank may expect anything of this group any more.
  void mark_failed(const std::string& why);
  /// "rank 3", or "rank 3 on h2" where the ranks are on several hosts.
  std::string name_of(int rank) const;
  bool failed() const { return !failure_.empty(); }

  /// Throws CommError unless `code` is MPI_SUCCESS.
  void check(int code, const char* what);

 private:
  std::chrono::duration<double> timeout_;
  bool owns_mpi_ = false;
  bool finished_ = false, told_by_peer_ = false, announced_ = false;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1, host_block_ = 1;
  int64_t entered_ = 0;

  /// True where all ranks that `call` waits for have said since `since` that they work.
  bool others_work(const Call& call, std::chrono::steady_clock::time_point since) const;
  /// Throws PeerLostError where a peer has told that it ends. `here`: what this rank does.
  void check_notice(const std::string& here);

  std::string failure_;
  std::vector<std::string> hosts_;
  MPI_Comm barrier_comm_ = MPI_COMM_NULL;
  std::unique_ptr<PeerWatch> watch_;
};

/// The text of an MPI return code.
std::string mpi_error_text(int code);

}  // namespace foretime::comm
