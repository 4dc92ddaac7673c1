#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <list>
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
  /// Frees without talking to anyone; after a failure use `leak` first.
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  /// Handles what has arrived: answers questions with (`entered`, `waiting`), records answers and notices. Throws
  /// CommError.
  void serve(int64_t entered, const std::string& waiting);

  struct Notice {
    int rank;
    std::string reason;
  };
  /// The first notice of a peer that ends.
  const std::optional<Notice>& notice() const { return notice_; }

  /// Asks every peer where it is; answers of earlier questions are forgotten.
  void ask();
  struct Answer {
    int64_t entered;      // collectives that the peer has entered
    std::string waiting;  // the one that it waits in
  };
  /// By rank; empty where the peer has not answered the last question.
  const std::vector<std::optional<Answer>>& answers() const { return answers_; }

  /// Tells every peer that this rank ends, and gives the messages `limit` to leave.
  void announce_end(const std::string& reason, std::chrono::duration<double> limit);

  /// Leaves all handles to the end of the process.
  void leak() { leaked_ = true; }

 private:
  enum class Kind : int32_t { question, answer, end };
  struct Message {
    Kind kind{};
    int32_t round = 0;
    int64_t entered = 0;
    std::array<char, 496> text{};
  };
  struct Sending {
    Message message;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void listen();
  void send(int to, Kind kind, int32_t round, int64_t entered, const std::string& text);
  void drop_sent();

  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  bool leaked_ = false;
  int32_t round_ = 0;
  Message incoming_;
  MPI_Request receiving_ = MPI_REQUEST_NULL;
  std::list<Sending> sending_;  // a list: MPI reads the messages where they are
  std::vector<std::optional<Answer>> answers_;
  std::optional<Notice> notice_;
};

}  // namespace foretime::comm
