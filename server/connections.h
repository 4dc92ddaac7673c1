#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace foretime::server {

/// Limits the open connections of a server. Each has a fixed time to send a whole request and to receive its answer,
/// regardless of progress; then it is shut down. If there are too many, the oldest connection of the peer with most
/// connections is closed, but never one whose request is being answered, so that a new connection is always accepted.
/// Thread-safe.
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

  /// Starts the watching thread. `most` limits the connections, `limit` the time of each phase except is_answered.
  Connections(size_t most, Clock::duration limit);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// Registers a connection; `descriptor` must stay open until `closed`.
  Handle opened(int descriptor);
  void closed(Handle connection);
  void enter(Handle connection, Phase phase);
  /// Stops waiting for new requests: shuts down connections that have not sent a whole head, and those that send a body
  /// after `grace`.
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
