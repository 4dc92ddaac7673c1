#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace foretime::server {

/// The open connections of a server. Each has so long to send a whole request, and so long to take its answer, however
/// often it moves a byte; past that it is shut down. Where there are too many, the one that has stood longest makes
/// room for the next, of the peer that has most, and never one whose request is being answered: a new connection is
/// always heard. Any thread may call.
class Connections {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Phase : uint8_t { sends_head, sends_body, is_answered, takes_answer };
  struct Connection {
    int descriptor = -1;
    std::string peer;
    Phase phase = Phase::sends_head;
    Clock::time_point since{};
    bool shut = false;
  };
  using Handle = std::list<Connection>::iterator;

  /// `most` at once; `limit` for each phase but is_answered.
  Connections(size_t most, Clock::duration limit);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// `descriptor` stays open until `closed`.
  Handle opened(int descriptor);
  void closed(Handle connection);
  void enter(Handle connection, Phase phase);
  /// No request is waited for any more: who has not sent a whole head is shut
  /// down now, who sends a body in `grace` from now on.
  void drain(Clock::duration grace);

 private:
  static void shut(Connection& connection);
  void make_room(const Connection& newest);
  void watch();

  const size_t most_;
  const Clock::duration limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Connection> all_;
  bool draining_ = false, ended_ = false;
  Clock::time_point drained_at_{};
  std::thread watching_;
};

}  // namespace foretime::server
